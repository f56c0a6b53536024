"""A declared lookup: ask, read to the end, and say what is there. Nothing incomplete is ever "absent"."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from ascertain.adapters.candidate import Candidate, Standing, conclude
from ascertain.adapters.place import id_in, same, time_in
from ascertain.adapters.reading import first_text, small, unequal
from ascertain.adapters.sending import Phase
from ascertain.contracts.effect import Receipt
from ascertain.contracts.finding import Absent, Differs, Unknowable
from ascertain.errors import LookupDown
from ascertain.ports import Listed

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping, Sequence

    import httpx
    from pydantic import JsonValue

    from ascertain.adapters.place import Place
    from ascertain.adapters.question_form import Paging, QuestionForm
    from ascertain.adapters.wire import Exchange, Wire
    from ascertain.contracts.finding import Finding

_SUCCESS: Final = 2


class _NothingThereError(Exception):
    """The outside answered with a status that means that there is none."""


@dataclass(frozen=True, slots=True)
class Question:
    """One lookup of one effect.

    Attributes:
        request: Builds the request, with these query parameters added.
        deadline: On the loop's clock.
        secrets: Never repeated, should the outside echo them.
    """

    wire: Wire
    form: QuestionForm
    scope: Mapping[str, JsonValue]
    request: Callable[[Mapping[str, str]], httpx.Request]
    absent: Sequence[int]
    deadline: float
    secrets: tuple[str, ...] = ()

    async def ask(self) -> Finding:
        """The finding.

        Raises:
            LookupDown: No answer, not an answer of this outside, or a listing that does not end in time.
        """
        try:
            if self.form.items is None:
                return self._one(await self._answer({}, first=True))
            pages = self._pages(self.form.items)
            ours = [item async for page in pages for item in page if not self._others(item)]
        except _NothingThereError as none:
            return Absent(detail=str(none))
        return self._conclude([self._candidate(item) for item in ours], "the whole listing")

    async def everything(self) -> AsyncIterator[list[Listed]]:
        """All that a census form lists, whosever it is, page by page to the end.

        Raises:
            LookupDown: As for one lookup.
        """
        if self.form.items is None:
            return
        async for page in self._pages(self.form.items):
            yield [listed for item in page if (listed := self._listed(item)) is not None]

    def _listed(self, item: JsonValue) -> Listed | None:
        state = None if self.form.state is None else self.form.state.within(item)
        stands = self._standing(item, state) is Standing.FACT
        external_id = id_in(self.form.external_id.within(item))
        if external_id is None and stands:
            raise LookupDown(f"a fact has no id at {self.form.external_id.text}")
        carried = [place.within(item) for place in self.form.carries_effect_id]
        ours = next((value for value in carried if isinstance(value, str) and value), None)
        shown = first_text([state], self.secrets)
        return None if external_id is None else Listed(external_id, ours, stands, shown)

    def _one(self, item: JsonValue) -> Finding:
        candidate, others = self._candidate(item), self._others(item)
        if not others:
            return self._conclude([candidate], "the outside")
        return Differs(
            external_id=candidate.external_id,
            expected={name: wanted for name, (wanted, _) in others.items()},
            found={name: found for name, (_, found) in others.items()},
        )

    def _conclude(self, candidates: Sequence[Candidate], asked: str) -> Finding:
        if candidates and not self.form.names_effect:
            return Unknowable(
                detail="these fit, but nothing in them names this effect",
                candidates=tuple(candidate.external_id for candidate in candidates),
            )
        return conclude(candidates, asked=asked)

    async def _pages(self, items: Place) -> AsyncIterator[list[JsonValue]]:
        turn = _Turn(self.form.paging)
        while turn.params is not None:
            answer = await self._answer(turn.params, first=turn.number == 0)
            page = items.within(answer)
            if not isinstance(page, list):
                raise LookupDown(f"the answer has no list at {items.text}")
            yield page
            turn.go_on(answer, page)

    async def _answer(self, params: Mapping[str, str], *, first: bool) -> JsonValue:
        left = self.deadline - asyncio.get_running_loop().time()
        if left <= 0:
            raise LookupDown("time ran out before the listing was read to its end")
        exchange = await self.wire.exchange(self.request(params), within=timedelta(seconds=left))
        if exchange.phase is not Phase.ANSWERED:
            raise LookupDown(exchange.detail)
        if first and exchange.status in self.absent:
            raise _NothingThereError(f"the outside has none (HTTP {exchange.status})")
        return _read(exchange)

    def _others(self, item: JsonValue) -> dict[str, tuple[JsonValue, JsonValue]]:
        """What in ``item`` says that it is not this effect's; empty if it is."""
        there = {place: place.within(item) for place in self.form.match}
        return unequal(self.form.match, there, self.scope)

    def _candidate(self, item: JsonValue) -> Candidate:
        form = self.form
        state = None if form.state is None else form.state.within(item)
        standing = self._standing(item, state)
        others = unequal(form.differs, {p: p.within(item) for p in form.differs}, self.scope)
        body, cut = small({p.text: p.within(item) for p in (*form.match, *form.keep)}, self.secrets)
        happened = None if form.happened_at is None else time_in(form.happened_at.within(item))
        return Candidate(
            receipt=Receipt(
                external_id=self._id_of(item, standing),
                happened_at=happened,
                body=body,
                truncated=cut,
            ),
            standing=standing,
            state=first_text([state], self.secrets),
            reason=first_text([place.within(item) for place in form.reason], self.secrets),
            expected={name: wanted for name, (wanted, _) in others.items()},
            found={name: found for name, (_, found) in others.items()},
        )

    def _id_of(self, item: JsonValue, standing: Standing) -> str:
        """Work that came to no fact often has no id of its own; the job's or ours names it then."""
        external_id = id_in(self.form.external_id.within(item))
        if external_id is not None:
            return external_id
        if standing is Standing.FACT:
            raise LookupDown(f"a fact has no id at {self.form.external_id.text}")
        return str(self.scope.get("job_id") or self.scope["effect_id"])

    def _standing(self, item: JsonValue, state: JsonValue) -> Standing:
        form = self.form
        if form.state is None:
            return Standing.FACT
        shown = [place.within(item) is not None for place in form.refused_shows]
        declared = (
            (form.found, Standing.FACT),
            (form.pending, Standing.PENDING),
            (form.refused, Standing.REFUSED if any(shown) or not shown else Standing.PENDING),
        )
        for values, standing in declared:
            if any(same(state, value) for value in values):
                return standing
        return Standing.UNCLEAR


class _Turn:
    """Which page is next."""

    def __init__(self, paging: Paging | None) -> None:
        self._paging = paging
        self._seen: set[str] = set()
        self.number = 0
        self.params: Mapping[str, str] | None = {}
        if paging is not None and paging.first_page is not None:
            self.params = {paging.param: str(paging.first_page)}

    def go_on(self, answer: JsonValue, page: list[JsonValue]) -> None:
        """Turn to the next page, or to None at the end.

        Raises:
            LookupDown: The listing goes round, says that it goes on but not where, or is too long.
        """
        self.number += 1
        mark = self._mark(answer, page)
        if mark is None or self._paging is None:
            self.params = None
            return
        if mark in self._seen:
            raise LookupDown("the listing goes round in a circle")
        if self.number >= self._paging.max_pages:
            raise LookupDown(f"the listing is longer than {self.number} pages")
        self._seen.add(mark)
        self.params = {self._paging.param: mark}

    def _mark(self, answer: JsonValue, page: list[JsonValue]) -> str | None:
        paging = self._paging
        if paging is None or (paging.more is not None and paging.more.within(answer) is False):
            return None
        if paging.first_page is not None:
            return str(paging.first_page + self.number) if page else None
        if paging.next is not None:
            value = paging.next.within(answer)
            return None if value in (None, "", False) else _mark_in(value)
        if paging.more is not None and paging.more.within(answer) is not True:
            raise LookupDown(f"the answer does not say at {paging.more.text} whether it is all")
        last = paging.last_item.within(page[-1]) if page and paging.last_item is not None else None
        return _mark_in(last)


def _mark_in(value: JsonValue) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int) or value == "":
        raise LookupDown("the listing goes on, but does not say from where")
    return str(value)


def _read(exchange: Exchange) -> JsonValue:
    if exchange.status is None or exchange.status // 100 != _SUCCESS:
        raise LookupDown(f"the outside answered the lookup with HTTP {exchange.status}")
    if exchange.truncated:
        raise LookupDown(f"the answer is longer than {len(exchange.body)} bytes")
    answer = exchange.json()
    if answer is None:
        raise LookupDown("the answer is not JSON")
    return answer
