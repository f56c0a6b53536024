"""Records histories of the workflows, to be replayed by every later release.

Run once per release: ``python -m tests.histories.record tests/histories/v0.1``. With names of scenarios
behind it, only those are recorded, beside what is there already.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections import Counter
from contextlib import AsyncExitStack
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from temporalio.client import Client as TemporalClient
from temporalio.contrib.pydantic import pydantic_data_converter

from activities.serving import Serving
from ascertain import keys
from ascertain.client import Client
from ascertain.contracts import finding, names, outcome
from ascertain.contracts.claim import ClaimRequest, Granted
from ascertain.contracts.command import Command
from ascertain.contracts.directive import UNSERVED
from ascertain.contracts.effect import Evidence, Receipt
from ascertain.contracts.gate import GateChange
from ascertain.contracts.incident import Approval, IncidentRequest, Step
from ascertain.contracts.replay import Pace, ReplayRequest, Say, Selection
from ascertain.contracts.semantics import LookupBy, Policy, Semantics
from ascertain.door import admit
from ascertain.errors import TaskEnded
from ascertain.ledger.migration import migrate
from ascertain.ledger.postgres import open_ledger
from ascertain.operation import Operations
from ascertain.ports import Call, Kind, Permit
from ascertain.stream import Stream, workflow_id
from starter.postgres import EmbeddedPostgres
from starter.temporal import TemporalServer
from tests.waiting import wait_until
from workers.worker import Role, build_workers

if TYPE_CHECKING:
    from collections.abc import Collection

    from ascertain.contracts.effect import Effect
    from ascertain.ports import Ledger

QUEUE = "recording"
SEEN = Evidence(source="answer", rule="scripted", detail="as the input says")
HALF_A_MINUTE = timedelta(seconds=30)
WORD = {"operator": "ada", "reason": "recorded"}


class Scripted:
    """An adapter whose effects' inputs say what happens."""

    semantics = Semantics(lookup=LookupBy.REFERENCE, in_flight_max=timedelta(0))

    def __init__(self) -> None:
        self._facts: dict[str, Receipt] = {}
        self._tries: Counter[str] = Counter()

    def prepare(self, effect: Effect) -> bytes:
        return effect.effect_id.encode()

    async def perform(self, call: Call, permit: Permit) -> outcome.Outcome:
        permit.check()
        receipt = Receipt(external_id=f"fact-{len(self._facts) + 1}")
        self._tries[call.effect.effect_id] += 1
        match call.effect.input.get("script"):
            case "refuse":
                return outcome.Refused(error_class="declined", evidence=SEEN)
            case "several" | "never":
                raise ConnectionResetError
            case "second" if self._tries[call.effect.effect_id] == 1:
                raise ConnectionResetError
            case "lose":
                self._facts[call.effect.effect_id] = receipt
                raise ConnectionResetError
            case "wait":
                await asyncio.sleep(30)
        self._facts[call.effect.effect_id] = receipt
        return outcome.Settled(receipt=receipt, evidence=SEEN)

    async def lookup(self, call: Call, *, within: timedelta) -> finding.Finding:
        if call.effect.input.get("script") == "several":
            return finding.Several(external_ids=("a", "b"))
        receipt = self._facts.get(call.effect.effect_id)
        return finding.Absent() if receipt is None else finding.Found(receipt=receipt)

    async def aclose(self) -> None:
        """Nothing is open."""


def step(name: str, script: str = "do", kind: str = "toy.short", **more: Any) -> dict[str, Any]:
    return {"name": name, "kind": kind, "input": {"script": script}, **more}


class Recorder:
    """Runs one scenario after the other and writes its history."""

    def __init__(self, client: Client, ledger: Ledger, folder: Path) -> None:
        self._client = client
        self._ledger = ledger
        self._folder = folder
        self._operations = Operations(client, QUEUE)

    async def record(self, chosen: Collection[str] = ()) -> None:
        """Record the chosen scenarios, or all."""
        undo = {"undo": {"kind": "toy.short", "input": {}}}
        scenarios = {
            "smooth": lambda: self._run("smooth", step("a")),
            "lost": lambda: self._run("lost", step("a", "lose")),
            "undo": lambda: self._run(
                "undo", step("a", **undo), step("b", **undo), step("c", "refuse")
            ),
            "queued": lambda: self._run("queued", step("a", kind="toy.long")),
            "takeover": self._takeover,
            "held": self._held,
            "cancelled": self._cancelled,
            "cancelled-first": self._cancelled_first,
            "unserved": self._unserved,
            "amended": self._amended,
            "rest": lambda: self._rest(step("a", "refuse"), step("b", "never")),
            "taken-back": lambda: self._taken_back(step("a", **undo), step("b", "several")),
            "replay": self._replay,
            "incident-night": self._incident,
            "stream": self._stream,
            "rated": self._rated,
        }
        for name, scenario in scenarios.items():
            if name in (chosen or scenarios):
                await scenario()

    async def _run(self, name: str, *steps: dict[str, Any]) -> None:
        await self._start(name, *steps)
        await self._client.result(name, within=HALF_A_MINUTE)
        await self._write(name)

    async def _takeover(self) -> None:
        await self._start("takeover", step("a", "several"))
        version = await wait_until(lambda: self._version("takeover"))
        handle = self._client.temporal.get_workflow_handle("takeover")
        await handle.signal(names.TAKEOVER, {"action": "take"})
        for action in ("take", "abandon"):
            command = Command(action=action, operator="ada", reason="recorded", version=version)
            answer = await self._client.takeover("takeover", command)
            assert answer.applied, answer.message
            version += 1
        await self._client.result("takeover", within=HALF_A_MINUTE)
        await self._write("takeover")

    async def _amended(self) -> None:
        await self._start("amended", step("a", "never", "toy.once"))
        version = await wait_until(lambda: self._version("amended"))
        changed = {"action": "amend", "input": {"script": "do"}, "evidence": {"seen": "nothing"}}
        await self._command("amended", {**changed, "version": version})
        await self._client.result("amended", within=HALF_A_MINUTE)
        await self._write("amended")

    async def _taken_back(self, *steps: dict[str, Any]) -> None:
        name = "taken-back"
        await self._start(name, *steps)
        version = await wait_until(lambda: self._version(name))
        (settled,) = (await self._client.status(name)).undoable
        case = await self._ledger.inspect(settled.effect_id)
        assert case is not None
        at = {"effect_id": settled.effect_id, "version": case.row.version}
        await self._command(name, {"action": "undo", **at})
        await wait_until(lambda: self._version(name))
        await self._command(name, {"action": "abandon", "version": version})
        await self._client.result(name, within=HALF_A_MINUTE)
        await self._write(name)

    async def _rest(self, *steps: dict[str, Any]) -> None:
        """Of a step after the one that is refused, somebody else had left the ledger in doubt."""
        task = admit({"task_id": "rest", "kind": "recorded", "steps": list(steps)})
        effect = keys.effect_of(self._client.temporal.namespace, task, task.steps[-1])
        fingerprint, lease = keys.fingerprint(effect.kind, effect.input), timedelta(seconds=1)
        request = ClaimRequest(effect, fingerprint, b"", "import/1", lease, budget=5)
        granted = await self._ledger.claim(request)
        assert isinstance(granted, Granted)
        doubt = outcome.Unknown(error_class="imported", evidence=SEEN)
        await self._ledger.record(granted.lease, doubt)
        await self._run("rest", *steps)

    async def _command(self, name: str, given: dict[str, Any]) -> None:
        """Give a command until it is applied: what was sent before may still take effect."""
        command = Command.model_validate({"operator": "ada", "reason": "recorded", **given})

        async def applied() -> bool:
            return (await self._client.takeover(name, command)).applied

        await wait_until(applied)

    async def _quarantined(self, partition: str) -> None:
        names = [f"{partition}-{number}" for number in range(3)]
        for name in names:
            await self._start(name, step("a", "second", "toy.once"), partition=partition)
        for name in names:
            await wait_until(lambda name=name: self._version(name))

    async def _replay(self) -> None:
        await self._quarantined("again")
        pace = Pace(canary=1, batch=2, rate=50)
        request = ReplayRequest(**WORD, selection=Selection(partition="again"), pace=pace)
        await self._operations.start_replay("replay", request)
        await wait_until(self._asked)
        await self._operations.say("replay", names.RESUME, Say(**WORD))
        await self._client.temporal.get_workflow_handle("replay").result()
        await self._write("replay")

    async def _asked(self) -> bool:
        return bool((await self._operations.replay_status("replay")).paused)

    async def _incident(self) -> None:
        await self._quarantined("night")
        request = IncidentRequest(**WORD, partition="night", pace=Pace(canary=1, batch=2, rate=50))
        incident = request.incident_id
        await self._operations.open_incident(request)
        for wanted in [*Step][1:]:
            await wait_until(lambda wanted=wanted: self._waits_for(incident, wanted), 60)
            await self._operations.say(incident, names.APPROVE, Approval(**WORD, step=wanted))

        async def over() -> bool:
            return len((await self._operations.incident_status(incident)).done) == len(Step)

        await wait_until(over, 60)
        await self._operations.say(incident, names.CLOSE, Say(**WORD))
        await self._client.temporal.get_workflow_handle(incident).result()
        await self._write(incident)

    async def _stream(self) -> None:
        """Its last word comes from a tool that says something else beside it."""
        stream = Stream(self._client, "recorded")
        await stream.open()
        task = admit({"task_id": "streamed", "kind": "recorded", "steps": [step("a")]})
        await stream.feed(0, [task])
        await stream.pause(Say(**WORD, request_id="r-1"))
        await stream.resume(Say(**WORD, request_id="r-1"))
        await self._client.temporal.get_workflow_handle(workflow_id(stream.name)).signal(
            names.CLOSE, {"by": "ada"}
        )
        await stream.result()
        await self._write(workflow_id(stream.name), "stream")

    async def _rated(self) -> None:
        """Its chunks come while it is paused."""
        stream = Stream(self._client, "rated")
        await stream.open(per_second=8)
        handle = self._client.temporal.get_workflow_handle(workflow_id(stream.name))
        await handle.signal(names.PAUSE)
        async with asyncio.TaskGroup() as feeding:
            for number in range(3):
                task = admit({"task_id": f"rated-{number}", "kind": "rated", "steps": [step("a")]})
                feeding.create_task(stream.feed(number, [task]))
            await handle.signal(names.RESUME)
        await stream.close()
        await self._write(workflow_id(stream.name), "rated")

    async def _waits_for(self, incident: str, wanted: Step) -> bool:
        return (await self._operations.incident_status(incident)).waiting_for is wanted

    async def _version(self, name: str) -> int | None:
        at = (await self._client.status(name)).open
        return at.standing.version if at and at.doing == "quarantined" and at.standing else None

    async def _held(self) -> None:
        await self._gate(paused=True)
        await self._start("held", step("a"))
        await wait_until(lambda: self._is("held", "HELD"))
        await self._gate(paused=False)
        await self._client.resume("held")
        await self._client.result("held", within=HALF_A_MINUTE)
        await self._write("held")

    async def _gate(self, *, paused: bool) -> None:
        change = {"partition": "default", "paused": paused, "by": "ada", "reason": "recorded"}
        await self._ledger.set_gate(GateChange(**change, request_id=str(paused)))

    async def _is(self, name: str, state: str) -> bool:
        return (await self._client.status(name)).state == state

    async def _cancelled(self) -> None:
        await self._start("cancelled", step("a"), step("b", "wait", "toy.long"), step("c"))
        await wait_until(lambda: self._running("cancelled"))
        await self._client.cancel("cancelled")
        try:
            await self._client.result("cancelled", within=HALF_A_MINUTE)
        except TaskEnded:
            await self._write("cancelled")

    async def cancel_first(self) -> None:
        """Cancel a task while there is no worker yet."""
        await self._start("cancelled-first", step("a"), step("b"))
        await self._client.cancel("cancelled-first")

    async def _cancelled_first(self) -> None:
        try:
            await self._client.result("cancelled-first", within=HALF_A_MINUTE)
        except TaskEnded:
            await self._write("cancelled-first")

    async def _unserved(self) -> None:
        await self._start("unserved", step("a", kind="toy.unknown"))
        await wait_until(self._turned_away)
        await self._client.cancel("unserved")
        try:
            await self._client.result("unserved", within=HALF_A_MINUTE)
        except TaskEnded:
            await self._write("unserved")

    async def _turned_away(self) -> bool:
        at = (await self._client.status("unserved")).open
        return at is not None and at.error_class == UNSERVED

    async def _running(self, name: str) -> bool:
        at = (await self._client.status(name)).open
        return at is not None and at.doing == "run_queued"

    async def _start(self, name: str, *steps: dict[str, Any], **more: Any) -> None:
        task = {"task_id": name, "kind": "recorded", "steps": list(steps), **more}
        await self._client.submit(task)

    async def _write(self, name: str, scenario: str | None = None) -> None:
        history = await self._client.temporal.get_workflow_handle(name).fetch_history()
        (self._folder / f"{scenario or name}.json").write_text(history.to_json())


async def record(folder: Path, chosen: Collection[str] = ()) -> None:
    """Run scenarios against real servers and write their histories into the folder, which exists."""
    async with AsyncExitStack() as running, asyncio.timeout(300):
        directory = Path(running.enter_context(tempfile.TemporaryDirectory()))
        # As root, PostgreSQL runs as somebody else and must get to its data.
        await asyncio.to_thread(directory.chmod, 0o711)
        server = await running.enter_async_context(
            TemporalServer(directory / "temporal", in_memory=True)
        )
        postgres = await running.enter_async_context(EmbeddedPostgres(directory / "postgres"))
        await migrate(postgres.url)
        ledger = await open_ledger(postgres.url)
        running.push_async_callback(ledger.aclose)
        temporal = await TemporalClient.connect(
            server.address, namespace=server.namespace, data_converter=pydantic_data_converter
        )
        recorder = Recorder(Client(temporal, task_queue=QUEUE), ledger, folder)
        await recorder.cancel_first()
        serving = Serving(ledger, kinds(), "recorder", ledger.replays, directory / "snapshots")
        for worker in build_workers(temporal, serving, Role(), QUEUE):
            await running.enter_async_context(worker)
        await recorder.record(chosen)


def kinds() -> dict[str, Kind]:
    """One whose attempts are short, one that runs on a queue of its own, one that is tried once."""
    adapter, short = Scripted(), Scripted.semantics
    long = short.model_copy(update={"max_duration": timedelta(minutes=1)})
    once = Policy(budget=1, lease=timedelta(seconds=1))
    return {
        "toy.short": Kind("toy.short", short, Policy(), adapter),
        "toy.long": Kind("toy.long", long, Policy(), adapter),
        "toy.once": Kind("toy.once", short, once, adapter),
    }


if __name__ == "__main__":
    target, *scenarios = sys.argv[1:]
    Path(target).mkdir(parents=True, exist_ok=True)
    asyncio.run(record(Path(target), scenarios))
