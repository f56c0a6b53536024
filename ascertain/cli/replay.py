"""``ascertain replay start``, ``status``, ``pause``, ``resume`` and ``report``."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

import typer
from pydantic import ValidationError

from ascertain.cli import acquaintance, option, output, place
from ascertain.cli.failure import asked_once
from ascertain.cli.hold import holds
from ascertain.cli.listing import checked_name
from ascertain.contracts.fault import faults
from ascertain.contracts.incident import PREFIX, Approval
from ascertain.contracts.replay import (
    ACTED,
    ASKED_FOR_INCIDENT,
    Outlook,
    Phase,
    ReplayRequest,
    Result,
    Say,
    Tally,
)
from ascertain.errors import AscertainError, NotFound, TemporalDown
from ascertain.operation import Operations

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

    from ascertain.cli.hold import Hold
    from ascertain.cli.place import Place
    from ascertain.contracts.replay import Item, ReplayStatus
    from ascertain.recovery import ReplayBook

OUTLOOKS: Final = {
    Outlook.THERE: "already there",
    Outlook.ABSENT: "absent",
    Outlook.KEY_ALIVE: "key still protects",
    Outlook.KEY_EXPIRED: "key expired",
    Outlook.UNKNOWN: "still unknown",
    Outlook.MOVED: "moved by others",
}
# What the book counts under the outlooks although it is none.
_NOT_ASKED: Final = {"NOT_ASKED": "not asked yet"}
_PAGE: Final = 1000
_AS_OF_LAST_BATCH: Final = "The items are counted as they stood when its last batch had ended."


@dataclass(frozen=True, slots=True)
class Wish:
    """A replay as it was typed."""

    selection: dict[str, Any]
    pace: dict[str, Any]
    go_on: bool
    operator: str
    reason: str

    def request(self) -> ReplayRequest:
        """What the workflow is started with.

        Raises:
            BadParameter: A part of it is not what a replay takes.
        """
        try:
            return ReplayRequest.model_validate(
                {
                    "operator": self.operator,
                    "reason": self.reason,
                    "selection": self.selection,
                    "pace": self.pace,
                    "go_on": self.go_on,
                }
            )
        except ValidationError as error:
            raise typer.BadParameter(faults(error)) from None


async def start(replay_id: str | None, wish: Wish, config: Path | None, *, as_json: bool) -> None:
    """Start a replay and print its id.

    Raises:
        Conflict: There is or was one of this id.
        BadParameter: It is no id, or a part of the wish is not what a replay takes.
    """
    request = wish.request()
    replay_id = checked_name(replay_id or f"replay-{uuid4().hex[:12]}", "replay")
    where = place.find(config)
    await (await operations(where)).start_replay(replay_id, request)
    chosen = request.selection
    await acquaintance.note_if_unheard_of(
        where,
        partition=chosen.partition,
        task_ids=chosen.task_ids,
        effect_ids=chosen.effect_ids,
    )
    if as_json:
        output.document({"replay_id": replay_id, **request.model_dump(mode="json")})
        return
    output.line(
        f"Replay {replay_id} asks for every item first: `ascertain replay status {replay_id}` says how far "
        "it is."
    )
    if request.go_on:
        output.line("Then it goes on to the canary by itself.")
    else:
        output.line(f"Then it waits for `{_resume(replay_id)}`, unless there is nothing to tell.")


async def status(replay_id: str, config: Path | None, *, as_json: bool) -> None:
    """Print how far a replay is.

    Raises:
        NotFound: There is no such replay.
    """
    where = place.find(config)
    asked = await operations(where)
    found = await asked.replay_status(replay_id)
    ended = await asked.broken_off(replay_id)
    found, held = await _counted(where, found)
    if as_json:
        told = [one.document() for one in held]
        output.document({**found.model_dump(mode="json"), "held_by": told, "broken_off": ended})
        return
    output.line(f"Replay {replay_id} of {found.operator} ({found.reason}): {found.phase}.")
    if ended is not None:
        output.line(
            f"It is over ({ended}) and tells nothing more; what it told goes on by itself. Start another one "
            "for the rest: `ascertain replay start --help`."
        )
    elif found.paused is not None:
        output.line(f"It is paused: {found.paused}.")
        output.line(f"It goes on with `{_goes_on(found)}`.")
    output.lines(one.words for one in held)
    print_tally(found.tally)
    if found.phase is Phase.DONE:
        output.line(_came_to(replay_id, found.tally))


async def _counted(where: Place, found: ReplayStatus) -> tuple[ReplayStatus, list[Hold]]:
    """How far it is by the ledger's items, and the closed gates in its way.

    The workflow knows the counts of its last finished batch: they stand where no ledger can tell.
    """
    if not where.has_ledger:
        output.note(_AS_OF_LAST_BATCH)
        return found, []
    try:
        async with where.ledger() as ledger:
            tally = await ledger.replays.tally(found.replay_id)
            held = await holds(ledger, found.replay_id, passes=found.incident is not None)
    except AscertainError as error:
        output.note(f"Whether a gate holds it is not known ({asked_once(error)}).")
        output.note(_AS_OF_LAST_BATCH)
        return found, []
    # Where the ledger has no item of it, its workers may write to another one.
    return (found.model_copy(update={"tally": tally}) if tally.items else found), held


def _resume(replay_id: str) -> str:
    return f'ascertain replay resume {replay_id} --reason "WHY"'


def _goes_on(found: ReplayStatus) -> str:
    """What has it go on: a step of the incident that it is part of, or a word to itself."""
    if found.incident is None or found.paused != ASKED_FOR_INCIDENT:
        return _resume(found.replay_id)
    return f'ascertain incident approve {found.incident.removeprefix(PREFIX)} --reason "WHY"'


def _came_to(replay_id: str, tally: Tally) -> str:
    """What there is left to do after a replay that is done."""
    report = f"`ascertain replay report {replay_id}`"
    if not tally.items:
        return "No effect fitted what it was to replay, so nothing was told."
    if not tally.of(ACTED):
        return f"Nothing of it could be told to go on: {report} says why, item by item."
    return f"{report} lists what became of each item."


async def say(replay_id: str, what: str, word: Say, config: Path | None, *, as_json: bool) -> None:
    """Pause or resume a replay.

    Raises:
        CommandRefused: It was not applied.
        NotFound: There is no such replay, or it is done.
        TemporalDown: It is not known whether it was applied.
    """
    message = await tell(await operations(place.find(config)), replay_id, what, word)
    if as_json:
        told = {"applied": True, "message": message, "request_id": word.request_id}
        output.document({"replay_id": replay_id, **told})
    else:
        output.line(f"Replay {replay_id}: {message}.")


async def report(
    replay_id: str, results: frozenset[str], config: Path | None, *, as_json: bool
) -> None:
    """Print every item, and that they add up.

    Raises:
        NotFound: The ledger has no item of such a replay.
        BadParameter: A result that no item can have.
    """
    unknown = results - {result.value for result in Result}
    if unknown:
        known = ", ".join(Result)
        raise typer.BadParameter(f"no item is ever {min(unknown)!r}; results are {known}")
    async with place.find(config).ledger() as ledger:
        tally = await ledger.replays.tally(replay_id)
        every = await _items(ledger.replays, replay_id)
        held = await holds(ledger, replay_id, passes=replay_id.startswith(PREFIX))
    items = [item for item in every if not results or item.result in results]
    if not tally.items:
        raise NotFound(f"the ledger has no item of a replay {replay_id}")
    if as_json:
        listed = [item.model_dump(mode="json") for item in items]
        told = {"replay_id": replay_id, "tally": tally.model_dump(mode="json"), "items": listed}
        output.document({**told, "held_by": [one.document() for one in held]})
        return
    output.table(
        ("task", "effect", "kind", "dry run", "batch", "result", "detail"),
        [
            (
                item.task_id,
                item.effect_id,
                item.kind,
                OUTLOOKS[item.outlook] if item.outlook is not None else "",
                "" if item.batch is None else str(item.batch),
                item.result,
                item.detail,
            )
            for item in items
        ],
    )
    print_tally(tally)
    output.lines(one.words for one in held)


async def _items(book: ReplayBook, replay_id: str) -> list[Item]:
    found: list[Item] = []
    while page := await book.items(
        replay_id, after=found[-1].effect_id if found else "", limit=_PAGE
    ):
        found += page
    return found


async def operations(where: Place) -> Operations:
    """Connect."""
    return Operations(await where.client(), where.settings.task_queue)


async def tell(asked: Operations, workflow_id: str, what: str, word: Say) -> str:
    """Tell a replay or an incident a person's word, and give its answer.

    Raises:
        CommandRefused: It was not applied.
        NotFound: There is none of that id, or it is over.
        TemporalDown: No answer came; the message says how the same word is given again.
    """
    with repeatable(what, word):
        return await asked.say(workflow_id, what, word)


@contextmanager
def repeatable(what: str, word: Say) -> Generator[None]:
    """Where no answer comes to a word, say how the same one is given again.

    Raises:
        TemporalDown: It is not known whether it is applied.
    """
    try:
        yield
    except TemporalDown as error:
        step = f"--step {word.step} " if isinstance(word, Approval) else ""
        raise TemporalDown(
            f"{error}, so it is not known whether {what} is applied: give the same command again with "
            f"`{step}--request-id {word.request_id}`: one id is applied once"
        ) from error


def said(operator: str, reason: str, request_id: str | None) -> Say:
    """A person's word, with an id that is made up if none was given.

    Raises:
        BadParameter: A part of it is empty, or too long.
    """
    try:
        return Say(operator=operator, reason=reason, request_id=option.request_id(request_id))
    except ValidationError as error:
        raise typer.BadParameter(faults(error)) from None


def print_tally(tally: Tally) -> None:
    """Both counts, each of which adds up to all items."""
    names = {outlook.value: words for outlook, words in OUTLOOKS.items()} | _NOT_ASKED
    for what, counts in (("dry run", tally.outlooks), ("result", tally.results)):
        told = ", ".join(
            f"{count} {names.get(name, name) if counts is tally.outlooks else name}"
            for name, count in sorted(counts.items())
        )
        output.line(f"{what}: {told or 'nothing'} = {sum(counts.values())} of {tally.items} items")
