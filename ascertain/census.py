"""A census: the outside's own list of facts against what the ledger says of itself. Pure."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from ascertain.contracts.census import TOLD, CensusReport, Discord, Discrepancy
from ascertain.contracts.effect import ABSENT

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

    from ascertain.ports import Listed, Standing

_CONFIDENCE: Final = 0.95
_HALVINGS: Final = 60


@dataclass
class Census:
    """What was read for one kind: first the ledger's settled effects, then the outside's list.

    In this order whatever is settled must be listed, and whatever is listed had been claimed before.

    Attributes:
        settled: The outside's id of each effect that counts as done, and old enough to be listed.
        listed: By the outside's own id.
    """

    kind: str
    since: datetime | None = None
    settled: dict[str, str] = field(default_factory=dict[str, str])
    listed: dict[str, Listed] = field(default_factory=dict[str, "Listed"])

    def of_ours(self) -> dict[str, list[Listed]]:
        """What is listed under each effect's id."""
        ours: dict[str, list[Listed]] = defaultdict(list)
        for fact in self.listed.values():
            if fact.effect_id is not None:
                ours[fact.effect_id].append(fact)
        return dict(ours)

    def report(self, known: Mapping[str, Standing]) -> CensusReport:
        """Compare.

        Args:
            known: Where the listed effects stand in the ledger, read after the list.
        """
        ours = {
            effect_id: facts
            for effect_id, facts in self.of_ours().items()
            if effect_id not in known or known[effect_id].kind == self.kind
        }
        exist = {
            effect_id: tuple(fact.external_id for fact in facts if fact.stands)
            for effect_id, facts in ours.items()
        }
        effects = sum(1 for facts in exist.values() if facts)
        duplicates = sum(1 for facts in exist.values() if len(facts) > 1)
        found = [*self._of_facts(exist, known), *self._of_settled(ours, exist)]
        return CensusReport(
            kind=self.kind,
            since=self.since,
            listed=len(self.listed),
            foreign=len(self.listed) - sum(map(len, ours.values())),
            effects=effects,
            duplicates=duplicates,
            duplicate_effect_rate=duplicates / effects if effects else None,
            duplicate_effect_rate_upper=upper_bound(duplicates, effects),
            settled=len(self.settled),
            count=Counter(one.discord for one in found),
            discrepancies=tuple(found[:TOLD]),
        )

    def _of_facts(
        self, exist: Mapping[str, tuple[str, ...]], known: Mapping[str, Standing]
    ) -> Iterable[Discrepancy]:
        for effect_id, facts in sorted(exist.items()):
            if not facts:
                continue
            standing = known.get(effect_id)
            if len(facts) > 1:
                detail = f"{len(facts)} facts carry this effect's id"
                yield Discrepancy(
                    discord=Discord.DUPLICATE,
                    effect_id=effect_id,
                    external_ids=facts,
                    detail=detail,
                )
            if standing is None:
                detail = "the ledger does not know an effect of this id"
                yield Discrepancy(
                    discord=Discord.UNRECORDED,
                    effect_id=effect_id,
                    external_ids=facts,
                    detail=detail,
                )
            elif standing.state in ABSENT:
                detail = f"it exists outside, but is {standing.state} in the ledger"
                yield Discrepancy(
                    discord=Discord.DENIED, effect_id=effect_id, external_ids=facts, detail=detail
                )

    def _of_settled(
        self, ours: Mapping[str, list[Listed]], exist: Mapping[str, tuple[str, ...]]
    ) -> Iterable[Discrepancy]:
        for effect_id, external_id in sorted(self.settled.items()):
            fact = self.listed.get(external_id)
            if fact is not None and fact.stands and fact.effect_id in {None, effect_id}:
                continue
            others = exist.get(effect_id, ())
            if fact is None and not ours.get(effect_id):
                yield Discrepancy(
                    discord=Discord.VANISHED,
                    effect_id=effect_id,
                    external_ids=(external_id,),
                    detail=f"{external_id} proved it and is not listed any more",
                )
                continue
            now = f"it is now {fact.state or 'no fact'}" if fact is not None else "it is gone"
            also = f"; {', '.join(others)} carries the id instead" if others else ""
            yield Discrepancy(
                discord=Discord.CHANGED,
                effect_id=effect_id,
                external_ids=(external_id, *others),
                detail=f"{external_id} proved it; {now}{also}",
            )


def upper_bound(hits: int, of: int) -> float:
    """The exact (Clopper-Pearson) one-sided upper 95 % bound of a share; 1 where nothing was looked at.

    Source:
        Clopper and Pearson, 1934: the share at which so few hits would be seen one time in twenty.
    """
    if hits >= of:
        return 1.0
    low, high = hits / of, 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if _at_most(hits, of, middle) > 1 - _CONFIDENCE:
            low = middle
        else:
            high = middle
    return high


def _at_most(hits: int, of: int, share: float) -> float:
    """The probability of at most so many hits."""
    if share >= 1:
        return 0.0
    terms = (
        math.lgamma(of + 1) - math.lgamma(k + 1) - math.lgamma(of - k + 1)
        + k * math.log(share) + (of - k) * math.log1p(-share)
        for k in range(hits + 1)
    )  # fmt: skip
    return math.fsum(map(math.exp, terms))
