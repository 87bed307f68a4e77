"""The application of `app_under_test`, of which every start has another topology: a store comes, the last one goes."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.crash.app_under_test import build, main

if __name__ == "__main__":
    start = Path(sys.argv[1]).stem.rpartition("-")[2]
    main(lambda spec: build(spec.prefix, extra=f"extra{start}"))
