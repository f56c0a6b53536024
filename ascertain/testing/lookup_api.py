"""The requests of the toy outside world that ask: listings, one fact, one job."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import assert_never

from aiohttp import web

from ascertain.contracts.value import JsonObject
from ascertain.testing.books import Books, Query, now
from ascertain.testing.delivery import Courier
from ascertain.testing.entry import Fact, LookupEntry
from ascertain.testing.knob import Answer, CutOff, Drop, Filter, LookupKnobs, Reply, Silence
from ascertain.testing.provider import Natural, Provider, error
from ascertain.testing.rulebook import Rulebook
from ascertain.testing.submit_api import peer_port


@dataclass(frozen=True, slots=True)
class _Question:
    key: str | None = None
    reference: str | None = None
    amount: str | None = None
    cursor: str | None = None

    def filters(self) -> set[Filter]:
        asked: set[Filter] = set()
        if self.key is not None:
            asked.add("key")
        if self.reference is not None:
            asked.add("reference")
        if self.amount is not None:
            asked.add("amount")
        return asked or {"list"}


@dataclass(frozen=True, slots=True)
class LookupApi:
    """HTTP handlers over the parts of one outside."""

    books: Books
    rules: Rulebook
    provider: Provider
    courier: Courier

    def add_routes(self, app: web.Application) -> None:
        """Serve the readable part of ``/facts``, and ``/jobs``."""
        app.router.add_get("/facts", self._list)
        app.router.add_get("/facts/{id}", self._fact)
        app.router.add_get("/jobs/{id}", self._job)

    async def _list(self, request: web.Request) -> web.StreamResponse:
        asked = _Question(
            **{name: request.query.get(name) for name in ("key", "reference", "amount", "cursor")}
        )
        knobs = self._knobs(asked)
        if not asked.filters() <= set(knobs.by):
            return await self._answer(request, asked, knobs, error(400, "unsupported_filter"))
        try:
            limit = int(request.query.get("limit", knobs.page_size))
            page = self.books.page(
                Query(
                    asked.key,
                    asked.reference,
                    asked.amount,
                    asked.cursor,
                    size=max(1, min(knobs.page_size, limit)),
                    lag=timedelta(seconds=knobs.lag_s),
                )
            )
        except ValueError:
            return await self._answer(request, asked, knobs, error(400, "bad_cursor_or_limit"))
        shown: JsonObject = {
            "data": [fact.public() for fact in page.facts],
            "has_more": page.cursor is not None,
            "cursor": page.cursor,
        }
        return await self._answer(request, asked, knobs, Natural(200, shown), len(page.facts))

    async def _fact(self, request: web.Request) -> web.StreamResponse:
        name = request.match_info["id"]
        fact = self.books.fact(name)
        asked = _Question(reference=name if fact is None else fact.reference)
        knobs = self._knobs(asked)
        if "id" not in knobs.by:
            return await self._answer(request, asked, knobs, error(400, "unsupported_filter"))
        fact = fact or self._visible(name, timedelta(seconds=knobs.lag_s))
        if fact is None or fact.removed:
            return await self._answer(request, asked, knobs, error(404, "no_such_fact"))
        return await self._answer(request, asked, knobs, Natural(200, fact.public()), 1)

    async def _job(self, request: web.Request) -> web.StreamResponse:
        job_id = request.match_info["id"]
        work = self.books.pending(job_id)
        asked = _Question() if work is None else _Question(work.draft.key, work.draft.reference)
        knobs = self._knobs(asked)
        if "id" not in knobs.by:
            return await self._answer(request, asked, knobs, error(400, "unsupported_filter"))
        truth = self.provider.job(job_id)
        return await self._answer(request, asked, knobs, truth, int("fact" in truth.body))

    def _visible(self, reference: str, lag: timedelta) -> Fact | None:
        page = self.books.page(Query(reference=reference, size=1, lag=lag))
        return page.facts[0] if page.facts else None

    def _knobs(self, asked: _Question) -> LookupKnobs:
        number = self._number(asked)
        return self.rules.take("lookup", asked.key, asked.reference, number).lookup

    def _number(self, asked: _Question) -> int:
        """The number of this question about its key, or about its reference where it names no key."""
        if asked.key is not None:
            return self.books.count("lookup", key=asked.key) + 1
        return self.books.count("lookup", reference=asked.reference) + 1

    async def _answer(
        self,
        request: web.Request,
        asked: _Question,
        knobs: LookupKnobs,
        truth: Natural,
        shown: int = 0,
    ) -> web.StreamResponse:
        status = _status_sent(knobs.reply, truth)
        self.books.write(
            LookupEntry(
                at=now(),
                attempt=self._number(asked),
                path=request.path,
                key=asked.key,
                reference=asked.reference,
                amount=asked.amount,
                cursor=asked.cursor,
                status=status,
                shown=shown if status == truth.status else 0,
                peer_port=peer_port(request),
            )
        )

        async def tell() -> Natural:
            return truth

        return await self.courier.deliver(request, knobs.reply, tell)


def _status_sent(reply: Reply, truth: Natural) -> int:
    """The status that the client gets; 0 for none."""
    match reply:
        case Answer(status=status) | CutOff(answer=Answer(status=status)):
            return truth.status if status is None else status
        case Drop() | Silence():
            return 0
        case _:
            assert_never(reply)
