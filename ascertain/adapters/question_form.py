"""Lookups as a deployment file writes them: what is asked, to the end, and how each candidate stands."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Literal

from pydantic import Field, JsonValue, model_validator

from ascertain.adapters.answer_form import Status
from ascertain.adapters.place import Place
from ascertain.adapters.request_form import RequestForm
from ascertain.adapters.template import Form
from ascertain.contracts.semantics import LookupBy
from ascertain.contracts.value import StrictValue


class Paging(StrictValue):
    """How a listing goes on, to its end.

    Attributes:
        param: The query parameter of the next page.
        next: Its value is here; nothing there is the end.
        last_item: Its value is here in the last item of this page; the end is when ``more`` is not true.
        first_page: Pages are numbered from this; the end is an empty page.
        more: Whether there is another page.
        max_pages: A longer listing counts as one that cannot be asked.
    """

    param: str
    next: Place | None = None
    last_item: Place | None = None
    first_page: Annotated[int, Field(ge=0, le=1)] | None = None
    more: Place | None = None
    max_pages: Annotated[int, Field(ge=1)] = 200

    @model_validator(mode="after")
    def _one_way(self) -> Paging:
        if sum(way is not None for way in (self.next, self.last_item, self.first_page)) != 1:
            raise ValueError("exactly one of next, last_item and first_page")
        if self.last_item is not None and self.more is None:
            raise ValueError(
                "last_item needs more: otherwise the end cannot be told from a short page"
            )
        return self


class QuestionForm(RequestForm):
    """A request that asks, and how to read its answer.

    Attributes:
        items: The list of candidates; default: the answer itself is the one candidate.
        match: A candidate is this effect's if each place has this value.
        state: Where a candidate says how it stands; default: being there is the fact.
        found: Values of ``state`` that mean that the fact exists.
        pending: Values that mean that it is still worked on.
        refused: Values that mean that it failed and stays failed.
        refused_shows: A refused candidate has at least one of these; without them it is still pending.
        differs: What was asked for; another value is shown to a person.
        absent: Statuses that mean "there is none"; default: 404, but for a listing none.
        reason: Where a refused candidate says why; the first that is there.
    """

    method: Literal["GET", "POST"] = "GET"
    items: Place | None = None
    paging: Paging | None = None
    match: dict[Place, Form] = Field(default_factory=dict[Place, Form])
    external_id: Place
    happened_at: Place | None = None
    state: Place | None = None
    found: tuple[JsonValue, ...] = ()
    pending: tuple[JsonValue, ...] = ()
    refused: tuple[JsonValue, ...] = ()
    refused_shows: tuple[Place, ...] = ()
    differs: dict[Place, Form] = Field(default_factory=dict[Place, Form])
    keep: tuple[Place, ...] = ()
    absent: tuple[Status, ...] | None = None
    reason: tuple[Place, ...] = ()

    @model_validator(mode="after")
    def _can_tell(self) -> QuestionForm:
        if self.state is None and (self.found or self.pending or self.refused):
            raise ValueError("found, pending and refused are values of state: say where it stands")
        if self.state is not None and not self.found:
            raise ValueError("found is missing: which values of state mean that the fact exists?")
        if not self.match and (self.items is not None or not self._addresses_one()):
            raise ValueError("match is missing: which candidate is this effect's?")
        if self.paging is not None and self.items is None:
            raise ValueError("paging needs items")
        return self

    def _addresses_one(self) -> bool:
        return bool({"effect_id", "job_id"} & {r.root for r in self.url.references})

    @property
    def carries_effect_id(self) -> tuple[Place, ...]:
        """Where an item has an effect's id and nothing else."""
        return tuple(
            place
            for place, form in self.match.items()
            if any(t.only is not None and t.only.root == "effect_id" for t in form.templates())
        )

    @property
    def names_effect(self) -> bool:
        """Whether a match proves that the candidate is this effect's and no other's."""
        roots = {
            r.root for form in self.match.values() for t in form.templates() for r in t.references
        }
        return bool({"effect_id", "job_id"} & roots) or (not self.match and self._addresses_one())


class LookupForm(QuestionForm):
    """The lookup: by key, by reference or by listing.

    Attributes:
        lag: How late a fact can become visible here; ``PT0S`` only if it is read-after-write.
    """

    by: LookupBy
    lag: timedelta

    @model_validator(mode="after")
    def _reads_to_the_end(self) -> LookupForm:
        if self.by is LookupBy.LISTING and (self.items is None or self.paging is None):
            raise ValueError("a listing needs items, and paging to read it to the end")
        return self

    @property
    def absent_statuses(self) -> tuple[int, ...]:
        """Statuses that mean that there is none."""
        default = () if self.by is LookupBy.LISTING else (404,)
        return default if self.absent is None else self.absent
