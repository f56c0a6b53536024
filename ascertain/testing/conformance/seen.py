"""What was seen of an adapter on its trial."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ascertain.contracts.finding import Finding
    from ascertain.contracts.outcome import Outcome
    from ascertain.ports import Listed
    from ascertain.testing.conformance.message import Reply


@dataclass(frozen=True)
class Attempted:
    """What one attempt came to.

    Attributes:
        said: The outcome's type; ``raised`` for an exception, ``permit_lost`` for that one.
        reply: In a batch, that of the whole call.
        requests: What the proxy saw meanwhile.
    """

    said: str
    outcome: Outcome | None
    reply: Reply
    requests: tuple[bytes, ...]

    @classmethod
    def of(cls, outcome: Outcome | None, reply: Reply, requests: list[bytes]) -> Attempted:
        """From what the adapter's process says."""
        said: str = "raised" if outcome is None else outcome.type
        if reply.raised == "PermitLost":
            said = "permit_lost"
        return cls(said, outcome, reply, tuple(requests))

    @property
    def doubted(self) -> bool:
        """Whether it is UNKNOWN: the adapter says so, or says nothing that counts."""
        return self.said in {"unknown", "raised"}

    @property
    def done(self) -> bool:
        """Whether the outside has done it, or has taken it to do it."""
        return self.said in {"settled", "accepted"}

    @property
    def told(self) -> str:
        """In words."""
        word = getattr(self.outcome, "error_class", "")
        more = f" ({word})" if word else f" ({self.reply.raised})" if self.reply.raised else ""
        return f"{self.said}{more}"


@dataclass(frozen=True)
class Looked:
    """What one lookup came to; ``raised`` for any exception: LookupDown, to a worker."""

    said: str
    finding: Finding | None
    reply: Reply


@dataclass(frozen=True)
class Shown:
    """What a listing came to.

    Attributes:
        facts: None where it raised: what was listed before that proves nothing.
    """

    facts: tuple[Listed, ...] | None
    reply: Reply

    def of(self, effect_id: str) -> list[str]:
        """The outside's ids of what stands under this effect's id."""
        ours = (one for one in self.facts or () if one.effect_id == effect_id and one.stands)
        return [one.external_id for one in ours]

    @property
    def told(self) -> str:
        """In words."""
        if self.facts is None:
            return f"{self.reply.raised}: {self.reply.text}"
        return f"a list of {len(self.facts)}"


@dataclass
class Seen:
    """What was measured on the way; None: not yet, or not to be measured.

    Attributes:
        quickest_s: The shortest attempt that was done.
        silence_s: How long an attempt took that met silence.
        in_flight_s: So long after a request was sent, its fact was still to come.
        external_ids: Of the facts that plain attempts made, by effect_id.
    """

    key_honoured: bool | None = None
    key_honoured_for_s: float | None = None
    key_forgotten_after_s: float | None = None
    compares_bodies: bool | None = None
    lookup_finds: bool | None = None
    lag_s: float | None = None
    quickest_s: float | None = None
    silence_s: float | None = None
    in_flight_s: float | None = None
    external_ids: dict[str, str] = field(default_factory=dict[str, str])
