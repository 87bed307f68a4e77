"""The application of `app_under_test`, with a handler that has failed queries started again."""

from __future__ import annotations

import os
import sys

from tests.crash.app_under_test import build, run

from hayase import HayaseError, StreamsApp, StreamThreadExceptionResponse


def _replace(error: HayaseError) -> StreamThreadExceptionResponse:
    print(f"asked about {error}", file=sys.stderr)
    return StreamThreadExceptionResponse.REPLACE_THREAD


class _Replacing(StreamsApp):
    def _start(self, *, bounded: bool) -> None:
        self.set_uncaught_exception_handler(_replace)
        super()._start(bounded=bounded)


if __name__ == "__main__":
    code = run(lambda spec: build(spec.prefix, through=spec.through), _Replacing)
    sys.stdout.flush()
    os._exit(code)
