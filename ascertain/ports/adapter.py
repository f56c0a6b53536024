"""What the core asks of an adapter, and what it hands to one: a call, a permit to dispatch, secrets."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final, Protocol, runtime_checkable

from ascertain.contracts import names
from ascertain.contracts.semantics import INLINE_MAX, Policy, Semantics

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence
    from datetime import datetime

    from pydantic import JsonValue

    from ascertain.contracts.effect import Effect, EffectRow
    from ascertain.contracts.finding import Finding
    from ascertain.contracts.outcome import Outcome


# Most bytes that the ledger keeps of one request.
FROZEN_MAX_BYTES: Final = 256 * 1024


@dataclass(frozen=True, slots=True)
class Call:
    """One effect as an adapter sees it.

    Attributes:
        frozen: The bytes that ``prepare`` made before the first claim: the same for every attempt.
        attempt: 1 for the first.
        job_id: What the outside called it when it accepted it.
        external_id: Set when the effect is settled already (census, comparison).
        first_sent_at: Nothing of it exists outside that is older. It can be older than ``frozen``, where a
            ledger was restored or a row was imported. None: not known.
    """

    effect: Effect
    frozen: bytes
    attempt: int
    job_id: str | None = None
    external_id: str | None = None
    first_sent_at: datetime | None = None

    @classmethod
    def about(cls, effect: Effect, row: EffectRow) -> Call:
        """How a lookup is told of an effect as the ledger has it."""
        return cls(effect, row.frozen, row.attempt, row.job_id, row.external_id, row.first_sent_at)


class Permit(Protocol):
    """The claim as a permit to dispatch: checked at the last line before I/O, good for one call."""

    def check(self) -> None:
        """Use the permit up.

        Raises:
            PermitLost: It ran out, was used, or was fenced. Send nothing; let the error pass.
        """
        ...

    async def renew(self) -> None:
        """Lengthen an unused permit after long work, right before the irreversible I/O.

        Raises:
            PermitLost: The claim was fenced meanwhile, its partition is paused, or the ledger cannot
                tell. Send nothing; let the error pass.
        """
        ...

    def heartbeat(self, progress: JsonValue) -> None:
        """Say that long work goes on, and how far it is. Costs nothing for inline effects."""
        ...


class Adapter(Protocol):
    """The code that does one kind of effect outside, and can ask whether it exists."""

    @property
    def semantics(self) -> Semantics:
        """What this outside promises, unless the deployment says otherwise."""
        ...

    def prepare(self, effect: Effect) -> bytes:
        """Build the bytes to send, once. No I/O. At most 256 KiB, and never a secret.

        Raises:
            InvalidTask: The input is wrong for this kind; the effect is refused and never sent.
        """
        ...

    async def perform(self, call: Call, permit: Permit) -> Outcome:
        """Make one call outside that sends ``call.frozen`` under the effect's id.

        ``permit.check()`` is the last line before the first byte leaves. Nothing is repeated and no
        redirect is followed. Any exception that is not classified here makes the effect UNKNOWN.
        """
        ...

    async def lookup(self, call: Call, *, within: timedelta) -> Finding:
        """Ask whether the effect exists, without causing it.

        Args:
            call: The effect; ``frozen`` tells what was asked for, to compare with what is found.
            within: Budget for all requests together.

        Raises:
            LookupDown: The outside cannot be asked now. Asked again later, slower.
        """
        ...

    async def aclose(self) -> None:
        """Give back connections."""
        ...


class BatchAdapter(Adapter, Protocol):
    """An adapter that can send many effects in one call.

    Each effect keeps its own id, claim, state and lookup, and can always be performed alone as well.
    """

    @property
    def batch_max(self) -> int:
        """The most effects of one call."""
        ...

    async def perform_many(
        self, calls: Sequence[Call], permits: Sequence[Permit]
    ) -> Sequence[Outcome]:
        """Make one call outside for all of them, each under its own id.

        Every permit is checked at the last line before the first byte leaves. What the outside does not
        mention in its answer is ``Unknown``: that others of the batch were done proves nothing of it.

        Returns:
            One outcome for each call, in their order.

        Raises:
            PermitLost: One of the permits; nothing was sent for any of them.
        """
        ...


@dataclass(frozen=True, slots=True)
class Listed:
    """One thing in the outside's own list.

    Attributes:
        effect_id: The effect's id that it carries; None: none of ours.
        stands: Whether it is a fact now; refused, pending or reversed things are none.
        state: The outside's own word for how it stands.
    """

    external_id: str
    effect_id: str | None
    stands: bool
    state: str = ""


@runtime_checkable
class Lister(Protocol):
    """An adapter that can also list everything that its outside has of its kind: optional."""

    def listing(
        self, *, since: datetime | None, within: timedelta
    ) -> AsyncIterator[Sequence[Listed]]:
        """The whole list, page by page.

        Args:
            since: What happened before may be left out; None: everything.
            within: Budget for all requests together.

        Raises:
            LookupDown: It cannot be listed now, or not to its end: a part of a list proves nothing.
            Unlisted: This kind is not declared so that it could be listed.
        """
        ...


class Secrets(Protocol):
    """Where ``secret:NAME`` is resolved: in workers only."""

    def reveal(self, name: str) -> str:
        """The secret's value.

        Raises:
            MissingSecret: It is neither in the environment nor in the secrets folder.
        """
        ...


class AdapterFactory(Protocol):
    """How a ``[kinds."..."]`` table becomes an adapter (entry-point group ``ascertain.adapters``)."""

    def __call__(self, kind: str, options: Mapping[str, JsonValue], secrets: Secrets) -> Adapter:
        """Build the adapter of one kind.

        Raises:
            InvalidSettings: An option is wrong; the message names it.
        """
        ...


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of effect as this deployment serves it.

    Attributes:
        adapter: None where this process does not hold it (another queue's credentials).
        task_queue: The deployment's own, after which the kind's is named.
        digest: Tells the table of the deployment file that it was made of from others.
    """

    name: str
    semantics: Semantics
    policy: Policy
    adapter: Adapter | None
    task_queue: str = names.TASK_QUEUE
    digest: str = ""

    @property
    def queue(self) -> str | None:
        """The task queue of its work; None runs inline, as a local activity behind the claim."""
        if self.policy.queue is not None:
            return self.policy.queue
        if self.semantics.max_duration <= INLINE_MAX:
            return None
        return names.queue_of(self.name, self.task_queue)
