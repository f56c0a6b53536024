"""Many facts in one request of the toy outside world: each item is decided and answered by itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from aiohttp import web
from pydantic_core import from_json, to_json

from ascertain.contracts.value import JsonObject
from ascertain.testing.delivery import Courier
from ascertain.testing.knob import Answer, Reply
from ascertain.testing.provider import Natural
from ascertain.testing.submit_api import SubmitApi


@dataclass(frozen=True, slots=True)
class BatchApi:
    """``POST /batches`` with ``{"items": [...]}``: 207, and an item for each with its ``code``.

    The knobs of an item are those of a submit. A reply that is lost is lost for the whole batch, after
    every item was decided; an answer with a status is that item's own.
    """

    single: SubmitApi
    courier: Courier

    def add_routes(self, app: web.Application) -> None:
        """Serve ``/batches``."""
        app.router.add_post("/batches", self._post)

    async def _post(self, request: web.Request) -> web.StreamResponse:
        items = cast("list[JsonObject]", from_json(await request.read())["items"])
        whole: Reply = Answer(status=None)
        told: list[JsonObject] = []
        for item in items:
            reply, natural = await self.single.one_of_many(request, to_json(item))
            if natural is None:
                whole = reply
            else:
                told.append(
                    {**natural.body, "reference": item["reference"], "code": natural.status}
                )

        async def truth() -> Natural:
            return Natural(207, {"results": list(told)})

        return await self.courier.deliver(request, whole, truth)
