"""One deployment that is drilled: real workers, a ledger, and a toy outside that keeps its own books."""

from __future__ import annotations

import os
import sys
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.workflowservice.v1 import DeleteWorkflowExecutionRequest

from ascertain.client import Client
from ascertain.keys import effect_id
from ascertain.ledger.migration import migrate
from ascertain.ledger.postgres import open_ledger
from ascertain.settings import FILE_VARIABLE, LEDGER_VARIABLE
from ascertain.testing.knob import Dedupe, Knobs
from ascertain.testing.outside import Outside
from drill import kind, points, protection
from drill.acceptance import Trace
from drill.stack import connect
from drill.toml import toml
from starter.part import Worker
from starter.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping
    from pathlib import Path

    from pydantic import JsonValue

    from ascertain.contracts.value import JsonObject
    from ascertain.ports import Ledger
    from drill.against import Against
    from drill.points import Plan
    from drill.protection import Protection
    from drill.stack import Stack
    from starter.temporal import TemporalServer

STEP: Final = "do"
_TASK_TIMEOUT: Final = timedelta(seconds=2)
_FORGOTTEN_WITHIN: Final = timedelta(seconds=90)


@dataclass(frozen=True, slots=True)
class Timing:
    """How long things take in this deployment: those of real ones, scaled down with their order kept.

    Attributes:
        in_flight_max_s: How long a sent request can still take effect.
        timeout_s: How long an answer is waited for.
        lease_s: How long a claim permits sending; on a busy machine a second goes by before that.
        sweep_every_s: 0: never.
        budget: Ample, where it is not what is drilled.
    """

    in_flight_max_s: float = 1
    timeout_s: float = 1
    lease_s: float = 2
    heartbeat_s: float = 1
    sweep_every_s: float = 0
    budget: int = 20

    @property
    def policy(self) -> JsonObject:
        """The policy of every kind."""
        return {
            "lease": self.lease_s,
            "heartbeat": self.heartbeat_s,
            "budget": self.budget,
            "retry_base": 0.1,
            "ask_first": 0.05,
            "ask_cap": 5,
            "ask_quarantined": 2,
            "held_recheck": 1,
        }


class Deployment:
    """What a drill needs to run tasks and to look at what became of them.

    Attributes:
        outside: Knows no keys.
        keyed: Honours them.
    """

    def __init__(  # noqa: PLR0913 - put together in one place
        self,
        name: str,
        folder: Path,
        *,
        temporal: TemporalServer,
        ledger_url: str,
        client: Client,
        ledger: Ledger,
        places: tuple[Outside, Outside],
        without: Protection | None = None,
    ) -> None:
        self.name = name
        self.client = client
        self.ledger = ledger
        self.ledger_url = ledger_url
        self.outside, self.keyed = places
        self._folder = folder
        self._temporal = temporal
        self._workers: list[Worker] = []
        self._without = without

    @property
    def folder(self) -> Path:
        """Of its workers' logs and of its file."""
        return self._folder

    def place_of(self, outside: kind.OutsideClass) -> Outside:
        """The outside of a class."""
        return self.keyed if outside.keyed else self.outside

    def worker(
        self,
        plan: Plan | None = None,
        *,
        address: str | None = None,
        variables: Mapping[str, str] | None = None,
    ) -> Worker:
        """A worker of this deployment, not yet started.

        Args:
            plan: The fault that strikes it from within.
            address: Of Temporal, if not the server's own.
            variables: More of its environment.
        """
        environment = {
            FILE_VARIABLE: str(self.file),
            LEDGER_VARIABLE: self.ledger_url,
            "TEMPORAL_ADDRESS": address or self._temporal.address,
            "TEMPORAL_NAMESPACE": self._temporal.namespace,
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
            **(variables or {}),
        }
        if self._without is not None:
            environment[protection.VARIABLE] = self._without
        if plan is not None:
            environment[points.VARIABLE] = plan.model_dump_json()
        made = Worker(
            (sys.executable, "-m", "drill.worker"),
            folder=self._folder / f"worker-{len(self._workers)}",
            environment=environment,
        )
        self._workers.append(made)
        return made

    @property
    def file(self) -> Path:
        """The deployment file."""
        return self._folder / "ascertain.toml"

    def effect_of(self, task_id: str) -> str:
        """The id of the task's one effect."""
        return effect_id(self.client.temporal.namespace, task_id, STEP, 0)

    async def trace(self, task_id: str, outside: kind.OutsideClass) -> Trace:
        """Everything that is known of the task's effect, from the ledger and from the outside."""
        effect = self.effect_of(task_id)
        case = await self.ledger.inspect(effect)
        books = self.place_of(outside).books
        return Trace(
            effect,
            None if case is None else case.row,
            await self.ledger.audit(effect),
            books.facts_of(effect),
            books.submits_of(effect),
        )

    async def forget(self, task_id: str) -> None:
        """Have Temporal forget a closed task, as its retention does; it does so half a minute later.

        Raises:
            SetupError: It has not within a minute and a half.
        """
        temporal = self.client.temporal
        await temporal.workflow_service.delete_workflow_execution(
            DeleteWorkflowExecutionRequest(
                namespace=temporal.namespace,
                workflow_execution=WorkflowExecution(workflow_id=task_id),
            )
        )

        async def gone() -> bool:
            return await self.client.ended(task_id) == "forgotten"

        await until(gone, _FORGOTTEN_WITHIN, f"Temporal did not forget {task_id}")

    async def stop(self) -> None:
        """Kill what still runs of its workers."""
        for worker in self._workers:
            await worker.kill()


def task(
    task_id: str, kind_name: str, *, amount: int = 1, partition: str = "default", message_id: str
) -> dict[str, JsonValue]:
    """A task of one effect, as its public JSON."""
    step: JsonValue = {"name": STEP, "kind": kind_name, "input": {"amount": amount}}
    return {
        "task_id": task_id,
        "kind": "drill",
        "partition": partition,
        "message_id": message_id,
        "steps": [step],
    }


def amount_of(task_id: str) -> int:
    """The amount of the one effect of a task of ours."""
    return int(task_id.rpartition("-")[2])


@asynccontextmanager
async def deployed(
    stack: Stack,
    name: str,
    timing: Timing,
    *,
    against: Against | None = None,
    without: Protection | None = None,
) -> AsyncGenerator[Deployment]:
    """A deployment with a database and a task queue of its own; its workers are killed at the end.

    Args:
        stack: The servers.
        name: A plain lower-case word, unlike those of the stack's other deployments.
        timing: How long things take.
        against: An adapter that is drilled in the place of ours.
        without: A protection that its workers do not have.
    """
    folder = stack.folder / name
    folder.mkdir()
    url = await stack.postgres.create_database(name)
    await migrate(url)
    async with AsyncExitStack() as closing:
        outside = await closing.enter_async_context(Outside())
        keyed = await closing.enter_async_context(Outside(Knobs(dedupe=Dedupe(by="key"))))
        ledger = await open_ledger(url)
        closing.push_async_callback(ledger.aclose)
        client = Client(await connect(stack.temporal), task_queue=name, task_timeout=_TASK_TIMEOUT)
        made = Deployment(
            name,
            folder,
            temporal=stack.temporal,
            ledger_url=url,
            client=client,
            ledger=ledger,
            places=(outside, keyed),
            without=without,
        )
        closing.push_async_callback(made.stop)
        chosen = kind.kinds(
            outside.url,
            keyed.url,
            f"{name}-queued",
            in_flight_max_s=timing.in_flight_max_s,
            timeout_s=timing.timeout_s,
            policy=timing.policy,
        )
        if against is not None:
            place = made.place_of(against.outside)
            for route in kind.Route:
                ours = chosen[kind.name_of(against.outside, route)]
                ours.update({"semantics": {}, **against.kind(place.url)})
        settings: JsonObject = {
            "task_queue": name,
            "sweep_every": timing.sweep_every_s,
            "census_every": 0,
        }
        made.file.write_text(toml({**settings, "kinds": dict(chosen)}), "utf-8")
        yield made
