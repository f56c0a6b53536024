"""Records histories of the task workflow, to be replayed by every later release.

Run once per release: ``python -m tests.histories.record tests/histories/v0.1``.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from temporalio.client import Client as TemporalClient
from temporalio.contrib.pydantic import pydantic_data_converter

from activities.serving import Serving
from ascertain.client import Client
from ascertain.contracts import finding, names, outcome
from ascertain.contracts.command import Command
from ascertain.contracts.directive import UNSERVED
from ascertain.contracts.effect import Evidence, Receipt
from ascertain.contracts.gate import GateChange
from ascertain.contracts.semantics import LookupBy, Policy, Semantics
from ascertain.errors import TaskEnded
from ascertain.ledger.model import ModelLedger
from ascertain.ports import Call, Kind, Permit
from starter.temporal import TemporalServer
from tests.waiting import wait_until
from workers.worker import Role, build_workers

if TYPE_CHECKING:
    from ascertain.contracts.effect import Effect

QUEUE = "recording"
SEEN = Evidence(source="answer", rule="scripted", detail="as the input says")
HALF_A_MINUTE = timedelta(seconds=30)


class Scripted:
    """An adapter whose effects' inputs say what happens."""

    semantics = Semantics(lookup=LookupBy.REFERENCE, in_flight_max=timedelta(0))

    def __init__(self) -> None:
        self._facts: dict[str, Receipt] = {}

    def prepare(self, effect: Effect) -> bytes:
        return effect.effect_id.encode()

    async def perform(self, call: Call, permit: Permit) -> outcome.Outcome:
        permit.check()
        receipt = Receipt(external_id=f"fact-{len(self._facts) + 1}")
        match call.effect.input.get("script"):
            case "refuse":
                return outcome.Refused(error_class="declined", evidence=SEEN)
            case "several" | "never":
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

    def __init__(self, client: Client, ledger: ModelLedger, folder: Path) -> None:
        self._client = client
        self._ledger = ledger
        self._folder = folder

    async def all(self) -> None:
        undo = {"undo": {"kind": "toy.short", "input": {}}}
        await self._run("smooth", step("a"))
        await self._run("lost", step("a", "lose"))
        await self._run("undo", step("a", **undo), step("b", **undo), step("c", "refuse"))
        await self._run("queued", step("a", kind="toy.long"))
        await self._takeover()
        await self._held()
        await self._cancelled()
        await self._unserved()

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

    async def _start(self, name: str, *steps: dict[str, Any]) -> None:
        await self._client.submit({"task_id": name, "kind": "recorded", "steps": list(steps)})

    async def _write(self, name: str) -> None:
        history = await self._client.temporal.get_workflow_handle(name).fetch_history()
        (self._folder / f"{name}.json").write_text(history.to_json())


async def record(folder: Path) -> None:
    """Run every scenario against a real server and write its history into the folder, which exists."""
    with tempfile.TemporaryDirectory() as directory:
        async with TemporalServer(Path(directory), in_memory=True) as server:
            temporal = await TemporalClient.connect(
                server.address, namespace=server.namespace, data_converter=pydantic_data_converter
            )
            adapter = Scripted()
            long = Scripted.semantics.model_copy(update={"max_duration": timedelta(minutes=1)})
            kinds = {
                "toy.short": Kind("toy.short", adapter.semantics, Policy(), adapter),
                "toy.long": Kind("toy.long", long, Policy(), adapter),
            }
            ledger = ModelLedger(lambda: datetime.now(UTC))
            workers = build_workers(temporal, Serving(ledger, kinds, "recorder"), Role(), QUEUE)
            async with AsyncExitStack() as running, asyncio.timeout(120):
                for worker in workers:
                    await running.enter_async_context(worker)
                await Recorder(Client(temporal, task_queue=QUEUE), ledger, folder).all()


if __name__ == "__main__":
    target = Path(sys.argv[1])
    target.mkdir(parents=True, exist_ok=True)
    asyncio.run(record(target))
