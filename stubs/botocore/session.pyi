from typing import Any

from botocore.config import Config

class Session:
    # The methods of a client come from the service's description when it runs.
    def create_client(
        self,
        service_name: str,
        region_name: str | None = None,
        endpoint_url: str | None = None,
        config: Config | None = None,
    ) -> Any: ...

def get_session() -> Session: ...
