"""The outside's own list against the ledger: what a census is asked for, and what it found."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Final

from pydantic import Field

from ascertain.contracts.value import Span, Value

TOLD: Final = 200


class Discord(StrEnum):
    """How the outside and the ledger can disagree.

    ``duplicate`` several facts carry one effect's id · ``unrecorded`` a fact carries an id of ours that
    the ledger does not know · ``denied`` a fact exists of an effect that is closed, or proven absent,
    without one · ``vanished`` a settled fact is not listed any more · ``changed`` a settled fact has been
    reversed, or another one carries its effect's id.
    """

    DUPLICATE = "duplicate"
    UNRECORDED = "unrecorded"
    DENIED = "denied"
    VANISHED = "vanished"
    CHANGED = "changed"


class Discrepancy(Value):
    """One disagreement. Nothing is ever sent because of it: a person looks."""

    discord: Discord
    effect_id: str
    external_ids: tuple[str, ...] = ()
    detail: str = ""


class CensusRequest(Value):
    """Which kind, and from when on.

    Attributes:
        kind: The kind of effect.
        since: Facts and effects that are older are not looked at; None: all that the outside lists.
    """

    kind: str
    since: datetime | None = None


class CensusReport(Value):
    """What the outside's list of one kind says.

    Attributes:
        listed: How many things the outside listed.
        foreign: How many of them carry no effect's id, or one of another kind.
        effects: How many effects have at least one fact outside.
        duplicates: How many of these have more than one.
        duplicate_effect_rate: ``duplicates / effects``; None without any effect.
        duplicate_effect_rate_upper: Its exact one-sided upper 95 % confidence bound.
        settled: How many effects the ledger counts as done; each should be listed.
        count: How many discrepancies of each sort.
        discrepancies: The first of them.
        elsewhere: The task queue of the workers that can list this kind, if these cannot.
        not_taken: Why there was no census of this kind; the numbers then mean nothing.
    """

    kind: str
    since: datetime | None = None
    listed: int = 0
    foreign: int = 0
    effects: int = 0
    duplicates: int = 0
    duplicate_effect_rate: float | None = None
    duplicate_effect_rate_upper: float = 1.0
    settled: int = 0
    count: dict[Discord, int] = Field(default_factory=dict)
    discrepancies: tuple[Discrepancy, ...] = ()
    elsewhere: str | None = None
    not_taken: str | None = None


class CensusOrder(Value):
    """Which censuses are to be taken.

    Attributes:
        no_older_than: Only what happened so long ago at most; None: everything.
    """

    kinds: tuple[str, ...]
    no_older_than: Span | None = None


class Censuses(Value):
    """One report for each kind that was asked for."""

    reports: tuple[CensusReport, ...]
