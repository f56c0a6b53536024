"""The payments made by Ascertain."""

from __future__ import annotations

import sys
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ascertain import settings
from ascertain.client import Client
from ascertain.contracts import names
from ascertain.contracts.effect import TERMINAL, State
from ascertain.errors import TaskEnded
from ascertain.machine import Move
from ascertain.ports import EffectFilter
from starter.demo.application import Account
from starter.demo.compare import Recorded
from starter.demo.payment import EXAMPLES
from starter.demo.provider import API_KEY
from starter.demo.seat import Program
from starter.waiting import until

if TYPE_CHECKING:
    from collections.abc import Mapping

    from temporalio.client import Client as TemporalClient

    from ascertain.contracts.task import Task
    from ascertain.ports import Ledger

DEPLOYMENT: Final = EXAMPLES / "demo.toml"
# The address in that file, which each worker's own copy replaces by its own way to the outside.
_ADDRESS: Final = "http://127.0.0.1:8420"
# A killed worker's inline work is handed out again after this, instead of the server's 10 s.
_TASK_TIMEOUT: Final = timedelta(seconds=3)
_LATE_WRITE_WITHIN: Final = timedelta(seconds=60)
_MOST_EFFECTS: Final = 100_000
_ASKED: Final = frozenset(
    {Move.FIND, Move.FIND_REFUSED, Move.FIND_PENDING, Move.FIND_ABSENT, Move.RESEND}
)
_REFUSED_WRITE: Final = "refused_write"


class Guarded:
    """Ascertain's workers, its client, and its ledger to ask afterwards."""

    def __init__(
        self, temporal: TemporalClient, ledger: Ledger, ledger_url: str, folder: Path
    ) -> None:
        self._temporal = temporal
        self._client = Client(temporal, task_timeout=_TASK_TIMEOUT)
        self._ledger = ledger
        self._ledger_url = ledger_url
        self._folder = folder

    def deployment(self, seat: str, api_base: str) -> Path:
        """A copy of the deployment file for one worker, with its own way to the outside."""
        text = DEPLOYMENT.read_text("utf-8").replace(_ADDRESS, api_base)
        file = self._folder / f"worker-{seat}.toml"
        file.write_text(text, "utf-8")
        return file

    def environment(self, deployment: Path) -> dict[str, str]:
        """The variables that a worker, or a person's command, needs to find everything."""
        return {
            settings.FILE_VARIABLE: str(deployment),
            settings.LEDGER_VARIABLE: self._ledger_url,
            "ASCERTAIN_SECRET_STRIPE_KEY": API_KEY,
            "TEMPORAL_ADDRESS": self._temporal.service_client.config.target_host,
            "TEMPORAL_NAMESPACE": self._temporal.namespace,
        }

    def program(self, seat: str, api_base: str) -> Program:
        """See ``Application.program``."""
        return Program(
            command=(sys.executable, "-m", "ascertain", "worker"),
            environment=self.environment(self.deployment(seat, api_base)),
            task_queue=names.TASK_QUEUE,
        )

    async def submit(self, task: Task) -> None:
        """See ``Application.submit``."""
        await self._client.submit(task)

    async def outcome(self, task_id: str) -> str:
        """See ``Application.outcome``."""
        try:
            return (await self._client.result(task_id)).outcome.value
        except TaskEnded as ended:
            return str(ended)

    async def states(self) -> Mapping[str, str]:
        """See ``Application.states``."""
        still = EffectFilter(states=frozenset(State) - TERMINAL, limit=_MOST_EFFECTS)
        return {row.task_id: row.state.value for row in await self._ledger.effects(still)}

    async def overtaken(self, effect_id: str) -> bool:
        """See ``Application.overtaken``."""
        case = await self._ledger.inspect(effect_id)
        return case is not None and case.row.state in TERMINAL

    async def thawed(self, effect_id: str) -> str:
        """See ``Application.thawed``: its write must be refused, and stay in the audit trail."""

        async def refused() -> bool:
            return _REFUSED_WRITE in [event.move for event in await self._ledger.audit(effect_id)]

        await until(refused, _LATE_WRITE_WITHIN, f"no late write about {effect_id} was refused")
        return "its late write was refused and kept as evidence"

    async def account(self) -> Account:
        """See ``Application.account``."""
        rows = await self._ledger.effects(EffectFilter(limit=_MOST_EFFECTS))
        trails = [[event.move for event in await self._ledger.audit(row.effect_id)] for row in rows]
        return Account(
            recorded={row.effect_id: Recorded(row.state.value, row.external_id) for row in rows},
            reconciled=sum(not _ASKED.isdisjoint(trail) for trail in trails),
            fenced=sum(trail.count(_REFUSED_WRITE) for trail in trails),
            quarantined=sum(row.state is State.QUARANTINED for row in rows),
        )
