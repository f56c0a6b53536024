"""One whole deployment for one test: real workers, the real servers, and a toy outside with books."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import asyncpg
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.workflowservice.v1 import DeleteWorkflowExecutionRequest
from temporalio.service import RPCError, RPCStatusCode

from ascertain.contracts.command import Action, Command
from ascertain.contracts.effect import Receipt, State
from ascertain.contracts.gate import Gate, GateChange
from ascertain.errors import NotFound
from ascertain.keys import effect_id
from ascertain.ports import EffectFilter
from ascertain.settings import FILE_VARIABLE, LEDGER_VARIABLE
from ascertain.testing.entry import Draft
from ascertain.testing.knob import Rule, SubmitKnobs
from drill.points import VARIABLE, Plan, Point, Strike
from drill.toml import toml
from tests.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from temporalio.client import WorkflowHandle

    from ascertain.client import Client
    from ascertain.contracts.command import CommandAnswer
    from ascertain.contracts.effect import EffectRow
    from ascertain.contracts.status import TaskStatus
    from ascertain.contracts.task import TaskResult
    from ascertain.ports import Ledger
    from ascertain.testing.entry import Fact
    from ascertain.testing.outside import Outside

ROOT = Path(__file__).parents[2]
READY_S = 60
LOST_SETTLE = """
    update ascertain.effects set state = 'IN_FLIGHT', version = 1, evidence_version = 1,
        receipt = null, external_id = null, happened_at = null
    where effect_id = $1
"""
AGED = """
    update ascertain.effects
    set state_since = state_since - interval '25 hours', lease_until = lease_until - interval '25 hours',
        first_sent_at = first_sent_at - interval '25 hours'
    where effect_id = $1
"""
SETTLED = timedelta(seconds=100)


class WorkerProcess:
    """A worker that can be killed, frozen, thawed and drained."""

    def __init__(self, process: asyncio.subprocess.Process, log: Path) -> None:
        self.process = process
        self.log = log

    @property
    def pid(self) -> int:
        return self.process.pid

    def signal(self, number: signal.Signals) -> None:
        if self.process.returncode is None:
            self.process.send_signal(number)

    def freeze(self) -> None:
        self.signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self.signal(signal.SIGCONT)

    async def kill(self) -> None:
        self.signal(signal.SIGKILL)
        await self.process.wait()

    async def drain(self) -> int:
        self.signal(signal.SIGTERM)
        return await asyncio.wait_for(self.process.wait(), 100)

    def frozen(self) -> bool:
        """Whether the kernel holds it stopped, as after its own SIGSTOP."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return fields[0] in {"T", "t"}


class Deployment:
    """What a test needs to run tasks and to look at what became of them."""

    def __init__(
        self,
        folder: Path,
        *,
        client: Client,
        ledger: Ledger,
        environment: dict[str, str],
        outside: Outside,
        keyed: Outside,
        settings: dict[str, Any],
    ) -> None:
        self.folder = folder
        self.client = client
        self.ledger = ledger
        self.outside = outside
        self.keyed = keyed
        self.settings = settings
        self.task_queue: str = settings["task_queue"]
        self._environment = environment
        self._workers: list[WorkerProcess] = []

    @property
    def workers(self) -> tuple[WorkerProcess, ...]:
        """Those that were started, in their order."""
        return tuple(self._workers)

    @property
    def ledger_url(self) -> str:
        return self._environment[LEDGER_VARIABLE]

    @property
    def variables(self) -> dict[str, str]:
        """By which any program of ours finds this deployment."""
        return {**os.environ, **self._environment}

    def configure(self, *, without: Collection[str] = ()) -> None:
        """Write the deployment file; workers read it when they start."""
        kinds = {name: kind for name, kind in self.settings["kinds"].items() if name not in without}
        file = Path(self._environment[FILE_VARIABLE])
        file.write_text(toml({**self.settings, "kinds": kinds}))

    def plan(self, point: Point, strike: Strike = Strike.KILL, **changes: Any) -> Plan:
        tally = self.folder / "strikes"
        tally.mkdir(exist_ok=True)
        return Plan(point=point, strike=strike, tally=tally, **changes)

    def strikes(self) -> int:
        return len(list((self.folder / "strikes").glob("strike-*")))

    async def worker(
        self,
        plan: Plan | None = None,
        *,
        queues: Sequence[str] = (),
        module: str = "drill.worker",
        release: Path = ROOT,
    ) -> WorkerProcess:
        """Start a worker, of all queues or of these, from this release's tree, and wait until it polls."""
        environment = self.variables
        if plan is not None:
            environment[VARIABLE] = plan.model_dump_json()
        log = self.folder / f"worker-{len(self._workers)}.log"
        said = log.with_suffix(".out")  # no pipe: one that is not read to its end stops who writes
        with log.open("wb") as written, said.open("wb") as out:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                module,
                *queues,
                cwd=release,
                env=environment,
                stdout=out,
                stderr=written,
            )
        worker = WorkerProcess(process, log)
        self._workers.append(worker)
        await wait_until(lambda: said.read_bytes() or process.returncode is not None, READY_S)
        assert said.read_bytes(), f"the worker did not start: {log.read_text()[-2000:]}"
        return worker

    def id(self, task_id: str) -> str:
        """The task's id on the server, which all tests share."""
        return f"{self.task_queue}-{task_id}"

    def task(self, task_id: str, *steps: dict[str, Any], **fields: Any) -> dict[str, Any]:
        """A task of toy facts."""
        whole = {"task_id": self.id(task_id), "kind": "toy", "steps": list(steps or (step(),))}
        return {**whole, **fields}

    async def submit(self, task_id: str, *steps: dict[str, Any], **fields: Any) -> str:
        """Start a task of toy facts and give its first effect's id."""
        task = self.task(task_id, *steps, **fields)
        await self.client.submit(task)
        return self.effect(task_id, task["steps"][0]["name"])

    def effect(self, task_id: str, name: str = "do") -> str:
        return effect_id(self.client.temporal.namespace, self.id(task_id), name, 0)

    def handle(self, task_id: str) -> WorkflowHandle[Any, Any]:
        return self.client.temporal.get_workflow_handle(self.id(task_id))

    async def result(self, task_id: str) -> TaskResult:
        return await self.client.result(self.id(task_id), within=SETTLED)

    async def status(self, task_id: str) -> TaskStatus:
        return await self.client.status(self.id(task_id))

    async def takeover(self, task_id: str, command: Command) -> CommandAnswer:
        return await self.client.takeover(self.id(task_id), command)

    async def hurry(self, task_id: str, *, held: bool = False) -> None:
        """Have it ask, or look at its gate, now; it may have done so by itself, and come to its end."""
        tell = self.client.resume if held else self.client.reconcile_now
        with suppress(NotFound):
            await tell(self.id(task_id))

    async def row(self, effect: str) -> EffectRow:
        case = await self.ledger.inspect(effect)
        assert case is not None, f"{effect} is not in the ledger"
        return case.row

    async def rows(self) -> list[EffectRow]:
        return list(await self.ledger.effects(EffectFilter(limit=1000)))

    async def wait_for_row(
        self, effect: str, fits: Callable[[EffectRow], bool], within_s: float = 80
    ) -> EffectRow:
        async def found() -> EffectRow | None:
            case = await self.ledger.inspect(effect)
            return case.row if case is not None and fits(case.row) else None

        return await wait_until(found, within_s, what=f"the row of {effect}")

    async def decidable(self, effect: str) -> EffectRow:
        """Wait until it waits for a person, who may act: nothing that was sent can still take effect."""
        return await self.wait_for_row(
            effect,
            lambda row: (
                row.state is State.QUARANTINED
                and row.now - row.lease_until > timedelta(seconds=1.1)
            ),
        )

    async def moves(self, effect: str) -> list[str]:
        return [event.move for event in await self.ledger.audit(effect)]

    def meet(self, *knobs: SubmitKnobs, key: str | None = None) -> None:
        """The next submits meet these knobs, one each; what comes later meets an honest provider."""
        for knob in knobs:
            self.outside.rules.add(Rule(times=1, submit=knob, key=key))

    def make_fact(self, reference: str, **content: Any) -> Fact:
        """A fact that somebody else makes by hand under this reference."""
        draft = Draft(key=None, reference=reference, content=content, received_at=datetime.now(UTC))
        return self.outside.books.commit(draft)

    async def fact_ids(self, effect: str) -> list[str]:
        return [fact.id for fact in self.outside.books.facts_of(effect)]

    def facts(self, effect: str) -> int:
        """How many facts there are under this effect's id, wherever they were made."""
        return sum(len(place.books.facts_of(effect)) for place in (self.outside, self.keyed))

    def submits(self, effect: str) -> int:
        return sum(len(place.books.submits_of(effect)) for place in (self.outside, self.keyed))

    async def gate(self, partition: str, *, paused: bool, ramp: timedelta | None = None) -> Gate:
        return await self.ledger.set_gate(
            GateChange(
                partition=partition,
                paused=paused,
                by="ada",
                reason="test",
                request_id=f"{partition}-{paused}-{ramp}",
                ramp=ramp,
            )
        )

    async def lose_settle(self, effect: str) -> None:
        """Put the row back to its claim, as after a crash before the settle was flushed to disk."""
        await self._rewrite(LOST_SETTLE, effect)

    async def age(self, effect: str) -> None:
        """Have all that is known of it be more than a day old."""
        await self._rewrite(AGED, effect)

    async def _rewrite(self, statement: str, effect: str) -> None:
        connection = await asyncpg.connect(self.ledger_url)
        try:
            await connection.execute("set session_replication_role = replica")
            await connection.execute(statement, effect)
        finally:
            await connection.close()

    async def forget(self, task_id: str) -> None:
        """Have Temporal forget a closed task, as its retention does."""
        temporal = self.client.temporal
        execution = WorkflowExecution(workflow_id=self.id(task_id))
        await temporal.workflow_service.delete_workflow_execution(
            DeleteWorkflowExecutionRequest(
                namespace=temporal.namespace, workflow_execution=execution
            )
        )

        async def gone() -> bool:
            try:
                await self.handle(task_id).describe()
            except RPCError as error:
                return error.status is RPCStatusCode.NOT_FOUND
            return False

        # The server deletes about half a minute later.
        await wait_until(gone, 90)

    async def stop(self) -> None:
        for worker in self._workers:
            worker.thaw()
            await worker.kill()


def command(action: Action, row: EffectRow, **fields: Any) -> Command:
    """What a person tells a task about its effect as it stands in this row."""
    told = {"operator": "ada", "reason": "looked at it", "version": row.version, **fields}
    return Command(action=action, **told)


def seen(row: EffectRow, external_id: str = "seen-1", **receipt: Any) -> Command:
    """A person says that exactly this effect exists."""
    evidence = Receipt(external_id=external_id, **receipt)
    return command(Action.CONFIRM, row, receipt=evidence, effect_id=row.effect_id)


def step(name: str = "do", kind: str = "toy.fact", **content: Any) -> dict[str, Any]:
    return {"name": name, "kind": kind, "input": {"amount": 1, **content}}
