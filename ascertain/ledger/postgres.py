"""The ledger in PostgreSQL: each operation is one statement, one round trip and one commit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import asyncpg

from ascertain.contracts.claim import Conflict, Moved, Stale, Taken
from ascertain.contracts.epoch import CLOCKS, Epoch
from ascertain.errors import NotFound
from ascertain.ledger import (
    chunk,
    epoch as epochs,
    migration,
    race,
    row as rows,
    write as writes,
)
from ascertain.ledger.decision import Judgement, answer, endless
from ascertain.ledger.postgres_gate import PostgresGates
from ascertain.ledger.postgres_reading import PostgresReading
from ascertain.ledger.replay import PostgresReplayBook
from ascertain.ledger.session import Session
from ascertain.ledger.statement import statement
from ascertain.ledger.upkeep import PostgresUpkeep
from ascertain.machine import Move

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from datetime import timedelta

    from ascertain.contracts.claim import (
        ChunkAnswer,
        ClaimAnswer,
        ClaimRequest,
        Lease,
        Paused,
        Verdict,
        Written,
    )
    from ascertain.contracts.effect import Effect, Evidence
    from ascertain.contracts.epoch import EpochRequest
    from ascertain.contracts.outcome import Outcome, Refused, Settled
    from ascertain.ledger.write import Write
    from ascertain.ports import Ledger

_CLAIM: Final = statement("claim")
_RECORD: Final = statement("record")
_RENEW: Final = statement("renew")
_CONVERGE: Final = statement("converge")
_WITHDRAW: Final = statement("withdraw")
_ONE_EFFECT: Final = statement("one_effect")
_PROVED_BY: Final = statement("proved_by")
_LIVE_IN_STEP: Final = statement("live_in_step")
_NOTE: Final = statement("note")
_RAISE_EPOCH: Final = statement("raise_epoch")

_WITHDRAWN: Final = writes.json_of(writes.WITHDRAWN)
_RENEWED: Final = writes.json_of(writes.RENEWED)
_LATE_RENEWAL: Final = writes.json_of(writes.LATE_RENEWAL)


async def open_ledger(
    url: str,
    *,
    connections: int = 8,
    timeout_s: float = 5,
    command_timeout_s: float = 5,
    role: str | None = None,
) -> PostgresLedger:
    """Connect to a migrated ledger.

    Args:
        url: ``postgresql://...``.
        connections: Most connections of this process.
        timeout_s: For a new connection, and to wait for a free one.
        command_timeout_s: For one operation; after it, its outcome is not known.
        role: Whose work is to be done; None: whatever the account may do.

    Raises:
        LedgerDown: Nobody answers there.
        WrongSchema: It must be migrated first; the message says how.
        InvalidSettings: The address, the account or the database's name is wrong, or the account lacks the
            role.
    """
    session = await Session.open(
        url, connections=connections, timeout_s=timeout_s, command_timeout_s=command_timeout_s
    )
    try:
        await migration.check(session)
        if role is not None:
            await migration.check_role(session, url, role)
    except BaseException:
        await session.aclose()
        raise
    return PostgresLedger(session)


class PostgresLedger(PostgresGates, PostgresReading):
    """``ports.Ledger`` on PostgreSQL 15 or newer."""

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self.replays = PostgresReplayBook(session)

    @property
    def upkeep(self) -> PostgresUpkeep:
        """What is asked of the whole ledger, on the same connections."""
        return PostgresUpkeep(self._session)

    async def claim(self, request: ClaimRequest) -> ClaimAnswer:
        """See ``ports.Ledger.claim``."""
        values = _claim_values(request)
        return await race.won(request.effect.effect_id, lambda: self._claim(request, values))

    async def _claim(self, request: ClaimRequest, values: Sequence[object]) -> ClaimAnswer | None:
        try:
            (record,) = await self._session.fetch(_CLAIM, *values)
        except asyncpg.UniqueViolationError as error:
            return await self._conflict(error, request.effect, request.fingerprint)
        judgement = Judgement(record["answer"])
        if judgement is Judgement.PAUSED:
            closed = rows.paused(record, request.effect.effect_id)
            return answer(judgement, None, closed, request)
        if record["effect_id"] is None:
            return None
        return answer(judgement, rows.effect_row(record), None, request)

    async def _conflict(
        self, error: asyncpg.UniqueViolationError, effect: Effect, offered: str
    ) -> Conflict | None:
        """What stands in the way of a first claim; None if that has gone in this very moment."""
        match error.constraint_name:
            case "effects_one_content_per_task":
                return Conflict(stored=error.detail or "", offered=effect.task_fingerprint or "")
            case "effects_one_live_per_step":
                found = await self._session.fetch(
                    _LIVE_IN_STEP, effect.task_id, effect.step, effect.effect_id
                )
                stored = found[0]["fingerprint"] if found else None
                return None if stored is None else Conflict(stored=stored, offered=offered)
            case "effects_not_archived":
                return None
            case _:
                raise error

    async def renew(self, lease: Lease, extend: timedelta) -> Written | Paused:
        """See ``ports.Ledger.renew``."""
        found = await self._told(
            _RENEW,
            lease.effect_id,
            lease.lease_version,
            lease.owner,
            lease.attempt,
            extend,
            _RENEWED,
            _LATE_RENEWAL,
        )
        if found and found[0]["gate"] is not None:
            return rows.paused(found[0], lease.effect_id)
        return _written(found)

    async def record(
        self, lease: Lease, outcome: Outcome, *, retry_in: timedelta | None = None
    ) -> Written:
        """See ``ports.Ledger.record``."""
        write = writes.of_outcome(outcome, retry_in)
        return await self._write(
            write,
            _RECORD,
            lease.effect_id,
            lease.lease_version,
            lease.owner,
            lease.attempt,
            write.move.value,
            write.state.value,
            write.evidence,
            write.receipt,
            write.external_id,
            write.happened_at,
            write.error_class,
            write.job_id,
            write.retry_in,
            writes.late(outcome),
            # What the outside accepted is never sent again: losing that would lose the job's id.
            write.move is Move.ACCEPT,
        )

    async def fence(self, effect_id: str, version: int, by: str) -> Written:
        """See ``ports.Ledger.fence``."""
        return await self._converge(effect_id, version, writes.fence(), by)

    async def converge(self, effect_id: str, version: int, verdict: Verdict, by: str) -> Written:
        """See ``ports.Ledger.converge``."""
        return await self._converge(effect_id, version, writes.of_finding(verdict), by)

    async def decide(
        self, effect_id: str, version: int, move: Move, verdict: Verdict, operator: str
    ) -> Written:
        """See ``ports.Ledger.decide``."""
        write = writes.of_decision(move, verdict)
        return await self._converge(effect_id, version, write, operator)

    async def amend(
        self, effect_id: str, version: int, denial: Verdict | None, verdict: Verdict, operator: str
    ) -> Written:
        """See ``ports.Ledger.amend``."""
        moves = writes.of_amendment(denial, verdict)
        written: Written = Stale(None)
        async with self._session.transaction() as transaction:
            for write in moves:
                values = _converging(effect_id, version, write, operator)
                written = _written(await transaction.fetch(_CONVERGE, *values))
                if not isinstance(written, Moved):
                    transaction.undo()
                    break
                version = written.row.version
        return await self._standing(effect_id) if isinstance(written, Stale) else written

    async def _standing(self, effect_id: str) -> Stale:
        found = await self._session.fetch(_ONE_EFFECT, effect_id)
        return Stale(rows.effect_row(found[0]) if found else None)

    async def withdraw(self, effect: Effect, fingerprint: str, by: str) -> Written | Conflict:
        """See ``ports.Ledger.withdraw``."""
        values = (
            effect.effect_id,
            fingerprint,
            writes.clean(by),
            _WITHDRAWN,
            effect.task_id,
            effect.message_id,
            effect.step,
            effect.revision,
            effect.kind,
            effect.partition,
            effect.begun_at,
        )
        return await race.won(effect.effect_id, lambda: self._withdraw(effect, fingerprint, values))

    async def _withdraw(
        self, effect: Effect, fingerprint: str, values: Sequence[object]
    ) -> Written | Conflict | None:
        try:
            found = await self._session.fetch(_WITHDRAW, *values)
        except asyncpg.UniqueViolationError as error:
            return await self._conflict(error, effect, fingerprint)
        (record,) = found
        if record["effect_id"] is None:
            return None if record["lost_since"] is None else Stale(None)
        if record["fingerprint"] != fingerprint:
            return Conflict(stored=record["fingerprint"], offered=fingerprint)
        return _written(found)

    async def raise_epoch(self, request: EpochRequest) -> Epoch:
        """See ``ports.Ledger.raise_epoch``."""
        by, reason = writes.clean(request.by), writes.clean(request.reason)
        values = (request.request_id, request.since, request.until, CLOCKS, by, reason)

        async def raised() -> Epoch | None:
            found = await self._session.fetch(_RAISE_EPOCH, *values)
            if not found:
                return None
            told = dict(found[0])
            if told["already_applied"] is None:
                epochs.admit(request, told["raised_at"])
            epoch = Epoch.model_validate(told)
            return epochs.repeated(request, epoch) if epoch.already_applied else epoch

        return await race.won(f"the epoch {request.request_id}", raised)

    async def note(self, effect_id: str, by: str, evidence: Evidence) -> None:
        """See ``ports.Ledger.note``."""
        told = writes.json_of(evidence)
        if not await self._told(_NOTE, effect_id, writes.clean(by), told):
            raise NotFound(f"{effect_id} was never claimed, so nothing can be noted of it")

    async def claim_many(self, requests: Sequence[ClaimRequest]) -> Sequence[ChunkAnswer]:
        """See ``ports.Ledger.claim_many``."""
        return await chunk.claim_many(self._session, requests)

    async def record_many(
        self, outcomes: Sequence[tuple[Lease, Refused | Settled]]
    ) -> Collection[str]:
        """See ``ports.Ledger.record_many``."""
        return await chunk.record_many(self._session, outcomes)

    async def aclose(self) -> None:
        """See ``ports.Ledger.aclose``."""
        await self._session.aclose()

    async def _converge(self, effect_id: str, version: int, write: Write, by: str) -> Written:
        return await self._write(write, _CONVERGE, *_converging(effect_id, version, write, by))

    async def _write(self, write: Write, text: str, effect_id: str, *values: Any) -> Written:  # noqa: ANN401  # asyncpg's
        async def written() -> Written | None:
            try:
                return _written(await self._told(text, effect_id, *values))
            except asyncpg.UniqueViolationError as error:
                if error.constraint_name != "effects_one_effect_per_fact":
                    raise
            return await self._taken(effect_id, write)

        return await race.won(effect_id, written)

    async def _told(self, text: str, *values: Any) -> Sequence[asyncpg.Record]:  # noqa: ANN401  # asyncpg's
        """Run a statement that tells a trail: two who tell that of an archived effect are in no order.

        One that waited for an archive finds nothing: where the row went shows only when it is asked again.
        """

        async def told() -> Sequence[asyncpg.Record] | None:
            try:
                return await self._session.fetch(text, *values) or await self._session.fetch(
                    text, *values
                )
            except asyncpg.UniqueViolationError as error:
                if error.constraint_name != "audit_events_pkey":
                    raise
            return None

        return await race.won(str(values[0]), told)

    async def _taken(self, effect_id: str, write: Write) -> Taken | None:
        """Who holds the fact; None if it was let go of meanwhile, which only an archive does."""
        found = await self._session.fetch(_ONE_EFFECT, effect_id)
        if not found or write.external_id is None:
            return None
        row = rows.effect_row(found[0])
        for other in await self._session.fetch(_PROVED_BY, row.kind, write.external_id):
            return Taken(write.external_id, other["effect_id"], other["task_id"], row)
        return None


def _converging(
    effect_id: str, version: int, write: Write, by: str
) -> tuple[str, *tuple[Any, ...]]:
    return (
        effect_id,
        version,
        writes.clean(by),
        write.move.value,
        write.state.value,
        [state.value for state in writes.starts(write.move)],
        write.evidence,
        write.receipt,
        write.external_id,
        write.happened_at,
        write.error_class,
        write.job_id,
        write.retry_in,
        write.superseded_by,
    )


def _claim_values(request: ClaimRequest) -> tuple[object, ...]:
    effect = request.effect
    forever = endless(request.resend_for)
    return (
        effect.effect_id,
        request.fingerprint,
        request.owner,
        request.lease,
        request.budget,
        None if forever else request.resend_for,
        forever,
        request.resend,
        effect.partition,
        writes.of_claims(request.budget),
        effect.task_id,
        effect.message_id,
        effect.step,
        effect.revision,
        effect.kind,
        request.frozen,
        request.trace_id,
        effect.task_fingerprint,
        effect.begun_at,
        request.sent_from,
    )


def _written(found: Sequence[asyncpg.Record]) -> Written:
    if not found:
        return Stale(None)
    row = rows.effect_row(found[0])
    return Moved(row) if found[0]["applies"] else Stale(row)


if TYPE_CHECKING:
    _conforms: type[Ledger] = PostgresLedger
