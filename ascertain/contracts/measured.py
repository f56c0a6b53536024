"""What the conformance kit saw of an adapter's outside, and what is left of a declaration because of it."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from ascertain.contracts.semantics import Semantics
from ascertain.contracts.value import Value

# Failing one of these alone, an adapter can be used: what it declares too much is taken off.
OF_DECLARATION: Final = frozenset(
    {"key", "key_life", "compares_bodies", "lookup_finds", "lookup_lag", "in_flight"}
)


class Measured(Value):
    """The measured contract of one kind of effect; None: it was not seen.

    Attributes:
        kind: Whose, as the kit was told.
        adapter: As in the deployment file.
        measured_at: When.
        failed: Names of the checks that it failed.
        key_honoured: Whether the same bytes under the same key made no second fact.
        key_honoured_for: It was still honoured so long after the first send.
        key_forgotten_after: It was forgotten at so long after the first send.
        compares_bodies: Whether a reused key with another body was told apart.
        lookup_finds: Whether a fact was found by the lookup.
        lag: A fact was still not visible so long after it was there.
        in_flight: So long after a request was sent, its effect was still to come, and came.
    """

    kind: str
    adapter: str
    measured_at: datetime
    failed: tuple[str, ...] = ()
    key_honoured: bool | None = None
    key_honoured_for: timedelta | None = None
    key_forgotten_after: timedelta | None = None
    compares_bodies: bool | None = None
    lookup_finds: bool | None = None
    lag: timedelta | None = None
    in_flight: timedelta | None = None

    @property
    def unfit(self) -> tuple[str, ...]:
        """Failed checks that no smaller declaration mends."""
        return tuple(name for name in self.failed if name not in OF_DECLARATION)


def limited(declared: Semantics, measured: Measured) -> Semantics:
    """What of a declaration was not seen to be broken. Never more than was declared."""
    changes: dict[str, object] = {}
    life = declared.idempotent_for
    if life is not None and measured.key_honoured is False:
        changes["idempotent_for"] = None
    elif life is not None and measured.key_forgotten_after is not None:
        kept = measured.key_honoured_for or timedelta(0)
        changes["idempotent_for"] = min(life, kept)
    if measured.compares_bodies is False:
        changes["compares_bodies"] = False
    if measured.lookup_finds is False:
        changes["lookup"] = None
    if measured.lag is not None:
        changes["lag"] = max(declared.lag, measured.lag)
    if measured.in_flight is not None:
        changes["in_flight_max"] = max(declared.in_flight_max, measured.in_flight)
    return declared.model_copy(update=changes)
