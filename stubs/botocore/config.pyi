from collections.abc import Mapping

class Config:
    def __init__(
        self,
        *,
        connect_timeout: float = 60,
        read_timeout: float = 60,
        tcp_keepalive: bool | None = None,
        retries: Mapping[str, int] | None = None,
        s3: Mapping[str, str] | None = None,
        request_checksum_calculation: str | None = None,
        response_checksum_validation: str | None = None,
        user_agent_extra: str | None = None,
    ) -> None: ...
