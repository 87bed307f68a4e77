"""The payment service of the shop, with faults by chance: it is slow, fails before and after its work, answers twice.

`granian --interface asgi hayase.cli.demo.shop_faults:app` runs it; `PAYMENTS_SEED` is the seed of the faults.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache
from random import Random
from types import ModuleType

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from hayase.cli.demo.example import example_file
from hayase.cli.load import load_file

_SLOW_S = (0.2, 1.5)
_chance = Random(int(os.environ.get("PAYMENTS_SEED", "1")))


@cache
def _service() -> ModuleType:
    return load_file(example_file("shop/payment_service.py"))


async def _receive(request: Request) -> Response:
    fault = _chance.choices(["", "slow", "fails before", "fails after", "answers twice"], [6, 1, 1, 1, 1])[0]
    if fault == "fails before":
        return Response(status_code=503)
    if fault == "slow":
        await asyncio.sleep(_chance.uniform(*_SLOW_S))
    if fault == "answers twice":
        await _service().receive(request)
    answer: Response = await _service().receive(request)
    return Response(status_code=500) if fault == "fails after" else answer


@asynccontextmanager
async def _from_the_start(_app: Starlette) -> AsyncIterator[None]:
    _service()
    yield


app = Starlette(routes=[Route("/", _receive, methods=["POST"])], lifespan=_from_the_start)
