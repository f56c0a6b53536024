"""Take over rows of a hand-built inbox, outbox or lease table: each is brought to a proved state.

A row that says ``PROCESSING`` proves nothing: the old worker may have acted or not. So every effect of such
a row is written into the ledger as UNKNOWN before its task is started, and the first thing that its workflow
does is to ask. Nothing is re-sent on the strength of a key, for nobody knows when it was first used.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from pydantic import JsonValue, ValidationError

from ascertain import keys
from ascertain.contracts import claim, outcome
from ascertain.contracts.effect import Evidence
from ascertain.contracts.fault import faults
from ascertain.contracts.value import JsonObject, Moment, StepName, StrictValue
from ascertain.door import admit, in_time
from ascertain.errors import Conflict, InvalidTask, UnknownKind

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ascertain.client import Client
    from ascertain.contracts.effect import Effect
    from ascertain.contracts.task import Step, Task
    from ascertain.ports import Adapter, Kind, Ledger
    from ascertain.starting import Submitted

ANY_TIME: Final = datetime(1970, 1, 1, tzinfo=UTC)
IMPORTED: Final = Evidence(
    source="rule",
    rule="imported",
    detail="taken over from another system that may have sent it; asked for before anything else",
)


class Standing(StrEnum):
    """What the old table says of a row."""

    PENDING = "PENDING"
    PROCESSING = "PROCESSING"


class Row(StrictValue):
    """One line of the file.

    Attributes:
        state: ``PENDING`` only if it is certain that nobody has begun it.
        begun: The steps that may have been sent; None: any of them.
        sent_from: Since when; None: at any time. Outsides that are asked for a time are asked since then.
    """

    task: JsonObject
    state: Standing
    begun: tuple[StepName, ...] | None = None
    sent_from: Moment | None = None


@dataclass(frozen=True, slots=True)
class Importer:
    """Takes over rows, one at a time; again and again is safe."""

    client: Client
    ledger: Ledger
    kinds: Mapping[str, Kind]

    async def take(self, line: Mapping[str, JsonValue]) -> tuple[Row, Submitted]:
        """Bring one row in: doubt first, then the task.

        Raises:
            InvalidTask: The row or its task breaks a rule; nothing was stored.
            UnknownKind: A step's kind is not served.
            Conflict: The id is known with other content, or its partition is paused.
            LedgerDown: Take the row again.
            TemporalDown: Take the row again.
        """
        row = row_of(line)
        task = in_time(admit(row.task, self.kinds), datetime.now(UTC))
        if row.state is Standing.PROCESSING:
            # All of them are made before the first is written, so that a row that is wrong leaves nothing.
            sent_from = row.sent_from or ANY_TIME
            for request in [self._request(task, step, sent_from) for step in _begun(row, task)]:
                await self._doubt(task, request)
        return row, await self.client.submit(task)

    async def _doubt(self, task: Task, request: claim.ClaimRequest) -> None:
        answer = await self.ledger.claim(request)
        match answer:
            case claim.Granted(lease=lease):
                doubt = outcome.Unknown(error_class="imported", evidence=IMPORTED)
                await self.ledger.record(lease, doubt)
            case claim.Conflict(stored=stored, offered=offered):
                raise Conflict(
                    f"task {task.task_id!r}: the ledger holds other content ({stored[:12]}, now "
                    f"{offered[:12]}); the first stands"
                )
            case claim.Paused(partition=partition, words=words):
                raise Conflict(
                    f"task {task.task_id!r}: partition {partition} is {words}; resume it, then import again"
                )
            case _:
                return  # an earlier import, or a worker, knows more already

    def _request(self, task: Task, step: Step, sent_from: datetime) -> claim.ClaimRequest:
        effect = keys.effect_of(self.client.temporal.namespace, task, step)
        kind = self.kinds[step.kind]
        if kind.adapter is None:
            raise UnknownKind(
                f"task {task.task_id!r}: this deployment has no adapter of {step.kind}"
            )
        return claim.ClaimRequest(
            effect=effect,
            fingerprint=keys.fingerprint(effect.kind, effect.input),
            frozen=_prepared(kind.adapter, effect),
            owner=f"import/{secrets.token_hex(6)}",
            lease=kind.policy.lease,
            budget=kind.policy.budget,
            resend_for=None,
            sent_from=sent_from,
        )


def _begun(row: Row, task: Task) -> list[Step]:
    """The steps that may have been sent."""
    if row.begun is None:
        return list(task.steps)
    unknown = sorted(set(row.begun) - {step.name for step in task.steps})
    if unknown:
        raise InvalidTask(f"task {task.task_id!r}: begun names no step: {', '.join(unknown)}")
    return [step for step in task.steps if step.name in row.begun]


def _prepared(adapter: Adapter, effect: Effect) -> bytes:
    try:
        return adapter.prepare(effect)
    except InvalidTask:
        raise
    except Exception as error:  # noqa: BLE001  # its text may hold anything, so only its type is told
        raise InvalidTask(
            f"task {effect.task_id!r}: the adapter of {effect.kind} cannot prepare step {effect.step} "
            f"({type(error).__name__})"
        ) from None


def row_of(line: Mapping[str, JsonValue]) -> Row:
    """A line of the file as a row.

    Raises:
        InvalidTask: It is none; says which field.
    """
    try:
        return Row.model_validate(line)
    except ValidationError as error:
        raise InvalidTask(f"not a row to import: {faults(error, 'row')}") from None
