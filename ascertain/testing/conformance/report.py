"""What the kit found of one adapter."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from ascertain.contracts.measured import Measured

if TYPE_CHECKING:
    from datetime import timedelta

    from ascertain.contracts.semantics import Semantics
    from ascertain.contracts.value import JsonObject

HEAD: Final = ("check", "result", "rule, or what was seen")


class Result(StrEnum):
    """How a check came out."""

    HELD = "held"
    FAILED = "failed"
    NOT_TRIED = "not tried"


@dataclass(frozen=True)
class Line:
    """One check.

    Attributes:
        rule: What it is about.
        seen: Why it failed, or why it was not tried.
    """

    name: str
    rule: str
    result: Result
    seen: str = ""


@dataclass(frozen=True)
class Report:
    """All checks, and what was measured."""

    declared: Semantics
    measured: Measured
    lines: tuple[Line, ...]

    @property
    def ok(self) -> bool:
        """Whether nothing failed."""
        return not self.failed

    @property
    def failed(self) -> tuple[str, ...]:
        """The names of the checks that failed."""
        return tuple(line.name for line in self.lines if line.result is Result.FAILED)

    def document(self) -> JsonObject:
        """As one JSON object."""
        return {
            "ok": self.ok,
            "declared": self.declared.model_dump(mode="json"),
            "measured": self.measured.model_dump(mode="json"),
            "checks": [
                {"name": one.name, "rule": one.rule, "result": one.result.value, "seen": one.seen}
                for one in self.lines
            ],
        }

    def rows(self) -> list[tuple[str, str, str]]:
        """For a table under ``HEAD``."""
        return [(line.name, line.result.value, line.seen or line.rule) for line in self.lines]

    def measurements(self) -> list[tuple[str, str, str]]:
        """What was declared and what was measured, side by side."""
        declared, measured = self.declared, self.measured
        life = _seconds(declared.idempotent_for)
        return [
            ("key", "none" if life is None else f"honoured for {life}", self._key()),
            ("compares bodies", _word(declared.compares_bodies), _word(measured.compares_bodies)),
            ("lookup", declared.lookup or "none", _word(measured.lookup_finds, "finds it")),
            ("lag", _seconds(declared.lag) or "0 s", _least(measured.lag)),
            ("in flight", _seconds(declared.in_flight_max) or "0 s", _least(measured.in_flight)),
        ]

    def text(self) -> str:
        """For people, without a table's frame."""
        width = max(len(line.name) for line in self.lines)
        told = [
            f"{name:{width}}  {result:9}  {words}"
            for name, result, words in self.rows()
            if result != Result.HELD.value
        ]
        whole = f"{self.measured.adapter} fails the conformance kit: {', '.join(self.failed)}"
        return "\n".join([whole, *told])

    def _key(self) -> str:
        measured = self.measured
        if measured.key_forgotten_after is not None:
            return f"forgotten after {_seconds(measured.key_forgotten_after)}"
        if measured.key_honoured_for is not None:
            return f"honoured for at least {_seconds(measured.key_honoured_for)}"
        return _word(measured.key_honoured, "honoured")


def _least(length: timedelta | None) -> str:
    return "not measured" if length is None else f"at least {_seconds(length)}" if length else "0 s"


def _seconds(length: object) -> str | None:
    seconds = getattr(length, "total_seconds", None)
    return None if seconds is None else f"{seconds():g} s"


def _word(value: bool | None, yes: str = "yes") -> str:  # noqa: FBT001 - a measured value
    if value is None:
        return "not measured"
    return yes if value else "no"
