"""Walks, mutants and broken promises as tables and as JSON."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Final

from drill.explorer.mutant import MUTANTS, hunt
from drill.explorer.promise import CLASSES, PROMISES, cost
from drill.explorer.protocol import Protocol
from drill.explorer.setting import settings
from drill.explorer.story import Story, story_of
from drill.explorer.walk import walk

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from drill.explorer.mutant import Caught
    from drill.explorer.promise import Cost
    from drill.explorer.setting import Setting


@dataclass(frozen=True, slots=True)
class Proof:
    """What the walk of one class came to.

    Attributes:
        depth: Steps to the farthest state.
        complete: Nothing was left out within the bounds of the model.
        story: The counter-example; None: every rule holds.
    """

    name: str
    about: str
    states: int
    steps: int
    depth: int
    complete: bool
    seconds: float
    story: Story | None


@dataclass(frozen=True, slots=True)
class Section:
    """One part of a report.

    Attributes:
        good: It is as it must be.
        stories: Counter-examples, each with what it is of.
        document: The same for machines.
    """

    heading: str
    table: Sequence[str]
    good: bool
    stories: Sequence[tuple[str, Story]]
    document: Sequence[dict[str, object]]

    def lines(self, *, stories: bool) -> Iterable[str]:
        """For people. Stories are told if asked for, and wherever something is not as it must be."""
        yield self.heading
        yield ""
        yield from self.table
        yield ""
        for what, story in self.stories if stories or not self.good else ():
            yield what
            yield from (f"  {line}" for line in story.lines())
            yield ""


MEASURED: Final = ("<!-- measured -->", "<!-- end of measured -->")


def put_into(page: str, sections: Sequence[Section]) -> str:
    """The page with these sections between its two marks.

    Raises:
        ValueError: It has no marks.
    """
    begin, end = MEASURED
    before, mark, rest = page.partition(begin)
    _, closing, after = rest.partition(end)
    if not mark or not closing:
        raise ValueError(f"the page has no {begin} ... {end}")
    told = "\n".join(line for section in sections for line in _section(section))
    return f"{before}{begin}\n\n{told}\n{end}{after}"


def _section(section: Section) -> Iterable[str]:
    return (f"### {section.heading}", "", *section.table, "")


def classes(only: Iterable[str], tell: Callable[[str], None], limit: int | None) -> Section:
    """Walk classes of outside.

    Args:
        only: Names of classes.
        tell: Told how far it is.
        limit: Most states of each.
    """
    known = settings()
    proofs = [_prove(known[name], tell, limit) for name in only]
    rows = [
        (
            proof.name,
            proof.about,
            f"{proof.states:,}",
            f"{proof.steps:,}",
            str(proof.depth),
            "all" if proof.complete else "not all",
            f"{proof.seconds:.0f}",
            "yes" if proof.story is None else "NO",
        )
        for proof in proofs
    ]
    states = f"{sum(proof.states for proof in proofs):,}"
    steps = f"{sum(proof.steps for proof in proofs):,}"
    seconds = f"{sum(proof.seconds for proof in proofs):.0f}"
    rows.append(("together", "", states, steps, "", "", seconds, ""))
    head = ("class", "the outside", "states", "steps", "depth", "walked", "seconds", "holds")
    return Section(
        "Every class of outside",
        table(head, rows),
        all(proof.story is None for proof in proofs),
        [(proof.name, proof.story) for proof in proofs if proof.story is not None],
        [asdict(proof) for proof in proofs],
    )


def _prove(setting: Setting, tell: Callable[[str], None], limit: int | None) -> Proof:
    def progress(walked: int, found: int) -> None:
        tell(f"{setting.name}: {walked:,} states walked, {found:,} found")

    begun = time.monotonic()
    with Protocol(setting) as protocol:
        walked = walk(protocol, limit=limit, progress=progress)
        story = None if walked.fault is None else story_of(protocol, walked)
    proof = Proof(
        name=setting.name,
        about=setting.about,
        states=len(walked.worlds),
        steps=len(walked.graph),
        depth=walked.depth,
        complete=walked.complete,
        seconds=round(time.monotonic() - begun, 1),
        story=story,
    )
    tell(f"{proof.name}: {proof.states:,} states, {proof.seconds:.0f} s")
    return proof


def mutants(tell: Callable[[str], None]) -> Section:
    """Every mutant, hunted."""
    hunted: list[Caught] = []
    for mutant in MUTANTS:
        tell(f"mutant: {mutant.name}")
        hunted.append(hunt(mutant))
    rows = [
        (
            caught.mutant.name,
            caught.mutant.where,
            "NOT CAUGHT" if caught.story is None else str(len(caught.story.scenes)),
            "" if caught.story is None else caught.story.why,
        )
        for caught in hunted
    ]
    return Section(
        "Every rule taken away once",
        table(("what is done wrong", "class", "steps", "caught because"), rows),
        all(caught.story is not None for caught in hunted),
        [(caught.mutant.name, caught.story) for caught in hunted if caught.story is not None],
        [
            {
                "mutant": caught.mutant.name,
                "class": caught.mutant.where,
                "states": caught.states,
                "story": None if caught.story is None else asdict(caught.story),
            }
            for caught in hunted
        ],
    )


def promises(tell: Callable[[str], None]) -> Section:
    """What broken promises cost, in each class."""
    costs: list[Cost] = []
    for promise in PROMISES:
        for where in CLASSES:
            tell(f"broken promise: {promise.name}, {where}")
            costs.extend(cost(promise, where, people=people) for people in (False, True))
    rows = [
        (promise.name, *(_both(costs, promise.name, where) for where in CLASSES))
        for promise in PROMISES
    ]
    return Section(
        "What a broken promise costs",
        table(("what is not as promised", *CLASSES), rows),
        good=True,
        stories=[(f"{each.where}: {each.promise}", each.story) for each in costs if each.story],
        document=[asdict(each) for each in costs],
    )


def _both(costs: Iterable[Cost], promise: str, where: str) -> str:
    """One cell: whether there can be a duplicate, by automation alone or only with a person."""
    found = {
        each.people: each.story is not None
        for each in costs
        if (each.promise, each.where) == (promise, where)
    }
    if found[False]:
        return "duplicate"
    return "with a person" if found[True] else "none"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Sequence[str]:
    """A Markdown table whose source is aligned."""
    widths = [max(len(row[column]) for row in (head, *rows)) for column in range(len(head))]
    ruled = ["-" * width for width in widths]
    return [
        "| "
        + " | ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True))
        + " |"
        for row in (head, ruled, *rows)
    ]
