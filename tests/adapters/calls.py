"""Effects, calls, permits and secrets for the tests of adapters."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING

from ascertain.contracts.effect import Effect, Undone
from ascertain.errors import MissingSecret, PermitLost
from ascertain.keys import effect_id
from ascertain.ports import Call

if TYPE_CHECKING:
    from pydantic import JsonValue

WITHIN = timedelta(seconds=5)
KEY = "sk_test_s3cret"


@dataclass
class GivenPermit:
    """A permit that stands or is lost."""

    lost: bool = False
    checks: int = 0

    def check(self) -> None:
        self.checks += 1
        if self.lost:
            raise PermitLost("fenced")

    async def renew(self) -> None:
        self.check()

    def heartbeat(self, progress: JsonValue) -> None:
        del progress


@dataclass
class GivenSecrets:
    """Secrets of a test."""

    values: dict[str, str] = field(default_factory=lambda: {"KEY": KEY})

    def reveal(self, name: str) -> str:
        if name not in self.values:
            raise MissingSecret(f"secret {name} is missing")
        return self.values[name]


def effect(
    kind: str, content: dict[str, JsonValue], *, task: str = "task-1", undoes: str | None = None
) -> Effect:
    return Effect(
        effect_id=effect_id("test", task, "step" if undoes is None else "step~undo", 0),
        task_id=task,
        step="step",
        kind=kind,
        partition="p",
        input=content,
        undoes=None if undoes is None else Undone(effect_id="ef1-of", external_id=undoes),
    )


def call(what: Effect, frozen: bytes, *, attempt: int = 1, job_id: str | None = None) -> Call:
    return Call(what, frozen, attempt, job_id=job_id)
