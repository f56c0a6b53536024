"""A claim and its answers: the durable permit, committed before the call leaves."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from ascertain.contracts.effect import Effect, EffectRow, Evidence, Receipt, State


@dataclass(frozen=True, slots=True)
class ClaimRequest:
    """What is asked of the ledger before a call.

    Attributes:
        frozen: The bytes to send; kept only if this is the first claim of the effect.
        lease: How long the owner may *send*; seconds, whatever the call takes.
        resend_for: How long after the first claim a same-key same-bytes re-send counts as asking;
            None: never; ``timedelta.max``: for ever, because a duplicate is harmless. Of what was promised
            at the first claim and what is promised now, the shorter holds.
        resend: Claim an UNKNOWN effect in order to ask by re-sending, which is granted only if the
            whole lease lies before that end.
        budget: Most claims that are granted, counted since the last retry that a person ordered.
        sent_from: Since when it may have been sent by somebody else; None: nobody has.
    """

    effect: Effect
    fingerprint: str
    frozen: bytes
    owner: str
    lease: timedelta
    budget: int
    resend_for: timedelta | None = None
    resend: bool = False
    trace_id: str | None = None
    sent_from: datetime | None = None


@dataclass(frozen=True, slots=True)
class Lease:
    """The identity of a granted claim: every write of its owner names it."""

    effect_id: str
    owner: str
    lease_version: int
    attempt: int


@dataclass(frozen=True, slots=True)
class Granted:
    """This attempt may call, once, with exactly ``row.frozen``, until the lease ends."""

    lease: Lease
    row: EffectRow


@dataclass(frozen=True, slots=True)
class Settled:
    """The effect exists already."""

    receipt: Receipt
    row: EffectRow


@dataclass(frozen=True, slots=True)
class Refused:
    """The effect is closed without a fact: REFUSED, ABANDONED or SUPERSEDED."""

    row: EffectRow


@dataclass(frozen=True, slots=True)
class Unresolved:
    """An earlier claim is not resolved (and, if it was open past its lease, is fenced by this call)."""

    row: EffectRow


@dataclass(frozen=True, slots=True)
class Busy:
    """An open claim whose lease ends within seconds: its owner may be about to settle."""

    until: datetime
    row: EffectRow


@dataclass(frozen=True, slots=True)
class Conflict:
    """The same effect_id was claimed before with another fingerprint."""

    stored: str
    offered: str


@dataclass(frozen=True, slots=True)
class Turn:
    """When an effect's turn comes in a gate that opens little by little.

    Attributes:
        wait: How long that is from now, by the ledger's clock.
        until: When the gate is open for all.
        share: How much of it is open now, from 0 to 1.
    """

    at: datetime
    wait: timedelta
    until: datetime
    share: float


@dataclass(frozen=True, slots=True)
class Paused:
    """The partition's gate is closed to the effect; nothing was stored.

    Attributes:
        half_open: A rule closed it, and others were let through to probe.
        turn: The gate opens little by little; None: nobody knows when it opens.
        closed_for: How long it has been so, by the ledger's clock.
    """

    partition: str
    since: datetime
    by: str
    reason: str
    half_open: bool = False
    turn: Turn | None = None
    closed_for: timedelta = timedelta(0)

    @property
    def words(self) -> str:
        """Why the effect waits, for people."""
        if self.turn is None:
            return f"paused by {self.by}: {self.reason}"
        until, at = (f"{t:%Y-%m-%d %H:%M:%S} UTC" for t in (self.turn.until, self.turn.at))
        return f"opening until {until}, {self.turn.share:.0%} now; this one from {at} on"


@dataclass(frozen=True, slots=True)
class TakenOver:
    """A named person owns the effect."""

    by: str
    row: EffectRow


# None: it stands otherwise, or lost a race; it needs a task of its own.
ChunkAnswer = Granted | Settled | Refused | Paused | None
ClaimAnswer = Granted | Settled | Refused | Unresolved | Busy | Conflict | Paused | TakenOver


@dataclass(frozen=True, slots=True)
class Moved:
    """The write was applied; the row as it stands now."""

    row: EffectRow


@dataclass(frozen=True, slots=True)
class Stale:
    """The write changed nothing: its lease_version or version is old.

    What an owner's write knew is kept as evidence in the audit trail. ``row`` is what stands.
    """

    row: EffectRow | None


@dataclass(frozen=True, slots=True)
class Taken:
    """The write changed nothing: its fact outside already proves another effect.

    Attributes:
        effect_id: The other effect, and ``task_id`` whose it is.
        row: The effect that the write was about, as it stands.
    """

    external_id: str
    effect_id: str
    task_id: str
    row: EffectRow | None

    @property
    def why(self) -> str:
        """The same in words."""
        proved = f"effect {self.effect_id} of task {self.task_id}"
        return f"the fact {self.external_id} already proves {proved}"


Written = Moved | Stale | Taken


@dataclass(frozen=True, slots=True)
class Verdict:
    """What reconciliation (or a person) makes of an effect: the state to move to, and why.

    Attributes:
        receipt: Required for SETTLED.
        job_id: Kept when given, for ACCEPTED.
        retry_at_in: For CLEAR: not to be claimed before now plus this.
        superseded_by: For SUPERSEDED: the effect that has the new input.
    """

    state: State
    evidence: Evidence
    receipt: Receipt | None = None
    error_class: str | None = None
    job_id: str | None = None
    retry_at_in: timedelta | None = None
    superseded_by: str | None = None
