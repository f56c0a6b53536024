"""The ``/_control`` part of the toy outside world: knobs, rules, books, and facts made by hand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar, cast, get_args

from aiohttp import web
from pydantic import BaseModel, ValidationError

from ascertain.contracts.value import JsonObject
from ascertain.testing.books import Books, ShelfName, now
from ascertain.testing.entry import ChangeEntry, Draft
from ascertain.testing.knob import JobStatus, Knobs, Rule
from ascertain.testing.provider import Provider
from ascertain.testing.rulebook import Rulebook

T = TypeVar("T", bound=BaseModel)


class HandMade(BaseModel):
    """A fact that somebody made without us."""

    key: str | None = None
    reference: str | None = None
    content: JsonObject = {}


class FactChange(BaseModel):
    """A new status, or the fact's removal from the outside."""

    status: str | None = None
    removed: bool = False


class JobChange(BaseModel):
    """A job's status, set by hand."""

    status: JobStatus


@dataclass(frozen=True, slots=True)
class ControlApi:
    """HTTP handlers over the parts of one outside."""

    books: Books
    rules: Rulebook
    provider: Provider
    reset: Callable[[], None]

    def add_routes(self, app: web.Application) -> None:
        """Serve under ``/_control``."""
        app.router.add_put("/_control/knobs", self._set_knobs)
        app.router.add_get("/_control/knobs", self._get_knobs)
        app.router.add_post("/_control/rules", self._add_rule)
        app.router.add_delete("/_control/rules", self._clear_rules)
        app.router.add_get("/_control/books", self._get_books)
        app.router.add_delete("/_control/books", self._reset)
        app.router.add_get("/_control/wait", self._wait)
        app.router.add_post("/_control/facts", self._make_fact)
        app.router.add_patch("/_control/facts/{id}", self._change_fact)
        app.router.add_patch("/_control/jobs/{id}", self._change_job)

    async def _set_knobs(self, request: web.Request) -> web.Response:
        self.rules.knobs = await _read(request, Knobs)
        return web.Response(status=204)

    async def _get_knobs(self, _: web.Request) -> web.Response:
        return _send(self.rules.knobs)

    async def _add_rule(self, request: web.Request) -> web.Response:
        self.rules.add(await _read(request, Rule))
        return web.Response(status=204)

    async def _clear_rules(self, _: web.Request) -> web.Response:
        self.rules.clear()
        return web.Response(status=204)

    async def _get_books(self, _: web.Request) -> web.Response:
        return _send(self.books.copy())

    async def _reset(self, _: web.Request) -> web.Response:
        self.reset()
        return web.Response(status=204)

    async def _wait(self, request: web.Request) -> web.Response:
        query = request.query
        shelf = query.get("shelf", "fact")
        if shelf not in get_args(ShelfName):
            raise _bad(f"shelf must be one of {', '.join(get_args(ShelfName))}")
        try:
            await self.books.wait_for(
                cast("ShelfName", shelf),
                int(query.get("count", "1")),
                key=query.get("key"),
                reference=query.get("reference"),
                within_s=float(query.get("within_s", "40")),
            )
        except TimeoutError as late:
            return web.Response(status=408, text=str(late))
        return web.Response(status=204)

    async def _make_fact(self, request: web.Request) -> web.Response:
        made = await _read(request, HandMade)
        draft = Draft(
            key=made.key, reference=made.reference, content=made.content, received_at=now()
        )
        return _send(self.books.commit(draft), status=201)

    async def _change_fact(self, request: web.Request) -> web.Response:
        fact_id = request.match_info["id"]
        change = await _read(request, FactChange)
        if self.books.fact(fact_id) is None:
            raise web.HTTPNotFound(text=f"no fact {fact_id}")
        self.books.write(ChangeEntry(id=fact_id, status=change.status, removed=change.removed))
        return web.Response(status=204)

    async def _change_job(self, request: web.Request) -> web.Response:
        job_id = request.match_info["id"]
        change = await _read(request, JobChange)
        if not self.provider.set_job(job_id, change.status):
            raise web.HTTPNotFound(text=f"no job {job_id}")
        return web.Response(status=204)


async def _read(request: web.Request, model: type[T]) -> T:
    try:
        return model.model_validate_json(await request.read())
    except ValidationError as problem:
        raise _bad(str(problem)) from problem


def _bad(why: str) -> web.HTTPBadRequest:
    return web.HTTPBadRequest(text=why)


def _send(value: BaseModel, status: int = 200) -> web.Response:
    return web.Response(
        status=status, body=value.model_dump_json().encode(), content_type="application/json"
    )
