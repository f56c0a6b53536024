"""Which knobs a request meets: the first rule that fits, over the defaults."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal, assert_never

from ascertain.contracts.value import JsonObject
from ascertain.testing.knob import Knobs, RateLimit, Rule

Request = Literal["submit", "lookup"]


@dataclass(slots=True)
class _Standing:
    rule: Rule
    used: int = 0

    @property
    def used_up(self) -> bool:
        return self.rule.times is not None and self.used >= self.rule.times

    def fits(
        self, request: Request, reference: str | None, attempt: int, content: JsonObject
    ) -> bool:
        match request:
            case "submit":
                says = self.rule.submit is not None or self.rule.dedupe is not None
            case "lookup":
                says = self.rule.lookup is not None
            case _:
                assert_never(request)
        return (
            says
            and self.rule.attempt in (None, attempt)
            and self.rule.reference in (None, reference)
            and self.rule.content.items() <= content.items()
        )


def _no_rules() -> dict[str, list[_Standing]]:
    return {}


@dataclass(slots=True)
class Rulebook:
    """The default knobs and the rules over them. Finding a rule costs what its key has of rules."""

    knobs: Knobs = field(default_factory=Knobs)
    _by_key: dict[str, list[_Standing]] = field(default_factory=_no_rules)
    _by_reference: dict[str, list[_Standing]] = field(default_factory=_no_rules)
    _general: list[_Standing] = field(default_factory=list[_Standing])

    def add(self, rule: Rule) -> None:
        """Put a rule behind the others."""
        standing = _Standing(rule)
        if rule.key is not None:
            self._by_key.setdefault(rule.key, []).append(standing)
        elif rule.reference is not None:
            self._by_reference.setdefault(rule.reference, []).append(standing)
        else:
            self._general.append(standing)

    def clear(self) -> None:
        """Drop all rules; the default knobs stay."""
        self._by_key.clear()
        self._by_reference.clear()
        self._general.clear()

    def peek(self, request: Request, key: str | None, reference: str | None, attempt: int) -> Knobs:
        """The knobs of a request whose body is not read yet, without using up a rule."""
        return self._over_default(self._find(request, key, reference, attempt, {}))

    def take(
        self,
        request: Request,
        key: str | None,
        reference: str | None,
        attempt: int,
        content: JsonObject | None = None,
    ) -> Knobs:
        """The knobs of a request; counts as one use of its rule."""
        standing = self._find(request, key, reference, attempt, content or {})
        if standing is not None:
            standing.used += 1
        return self._over_default(standing)

    def _find(
        self,
        request: Request,
        key: str | None,
        reference: str | None,
        attempt: int,
        content: JsonObject,
    ) -> _Standing | None:
        for standings in self._candidates(key, reference):
            # Used-up rules leave the list, so that a long script is not walked again and again.
            while standings and standings[0].used_up:
                standings.pop(0)
            for standing in standings:
                if not standing.used_up and standing.fits(request, reference, attempt, content):
                    return standing
        return None

    def _candidates(self, key: str | None, reference: str | None) -> Iterator[list[_Standing]]:
        if key is not None and key in self._by_key:
            yield self._by_key[key]
        if reference is not None and reference in self._by_reference:
            yield self._by_reference[reference]
        yield self._general

    def _over_default(self, standing: _Standing | None) -> Knobs:
        if standing is None:
            return self.knobs
        rule = standing.rule
        return self.knobs.model_copy(
            update={
                name: part
                for name, part in (
                    ("submit", rule.submit),
                    ("dedupe", rule.dedupe),
                    ("lookup", rule.lookup),
                )
                if part is not None
            }
        )


@dataclass(slots=True)
class RateMeter:
    """Counts the submits of the last second."""

    _times: deque[float] = field(default_factory=deque[float])

    def admits(self, limit: RateLimit, at: float) -> bool:
        """Whether one more fits at ``at`` (seconds of any steady clock); if so it is counted."""
        while self._times and self._times[0] <= at - 1:
            self._times.popleft()
        if len(self._times) >= limit.per_second:
            return False
        self._times.append(at)
        return True
