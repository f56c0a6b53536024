"""Who asks for work of a deployment's task queues, and whether they all serve and write to the same."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

from temporalio.service import RPCError

from ascertain.cli.check import Check
from ascertain.cli.wording import age
from ascertain.contracts.poller import Served, mark, process_of, served
from ascertain.errors import SetupError
from ascertain.ledger.session import place
from ascertain.poller import POLL, asked_everywhere, asked_lately, writers

if TYPE_CHECKING:
    from temporalio.client import Client as TemporalClient

    from ascertain.poller import Pollers
    from ascertain.settings import Settings

# What is wrong with a worker that serves otherwise than this deployment file says, and what mends it.
_DIFFERENCES: Final = {
    Served.OTHER_KINDS: (
        "other kinds than this deployment file",
        "the same kinds: what one does not know waits for another",
    ),
    Served.OTHER_TABLES: (
        "the kinds of this deployment file, but another adapter, options, semantics or policy of one",
        "the same file, and restart those that were started before a change of it",
    ),
}
_STOPPED: Final = f"one that was stopped since is named for {age(POLL)}"
_SENT_AGAIN: Final = "what one ledger knows to exist the other lets be sent again"
_MANY_LEDGERS: Final = (
    f"stop those on the wrong one now, for {_SENT_AGAIN}; then give all workers of a task queue the same "
    "ASCERTAIN_LEDGER_URL, and see with `ascertain census` what exists twice"
)
_OTHER_LEDGER: Final = (
    "give this command and the workers the same ASCERTAIN_LEDGER_URL: what is paused or decided in one "
    f"ledger is not heard of by who reads the other, and {_SENT_AGAIN}"
)


async def checks(client: TemporalClient, settings: Settings, origin: str | None) -> list[Check]:
    """What is to be said of those who ask for work: all that is wrong, or that nothing is.

    Args:
        client: Where they ask.
        settings: The deployment, as this command sees it.
        origin: Of the ledger that this command reads; None: it is not known.
    """
    queue = settings.task_queue
    try:
        asked = await asked_everywhere(client, settings)
    except RPCError as error:
        told = f"the server does not say who polls ({error.message})"
        return [Check("worker", "skipped", told)]
    wrong = [*_ledgers(asked, settings, origin), *_kinds(asked, settings)]
    if not asked[queue]:
        still = f"{nobody_serves(queue)}, so tasks stand still"
        wrong.append(Check("worker", "warning", still, "start one with `ascertain worker`"))
    told = f"asked for work of task queue {queue}: {_named(asked[queue])}; {_STOPPED}"
    return wrong or [Check("worker", "ok", told)]


def _ledgers(
    asked: Mapping[str, Pollers], settings: Settings, origin: str | None
) -> Iterator[Check]:
    """That workers write to other ledgers than each other, or than the one that this command reads."""
    writing = writers(asked)
    ours = {} if origin is None else {mark(origin): f"this one, at {place(settings.ledger_url)}"}
    if len(writing) > 1:
        told = "; ".join(
            f"{ours.get(ledger, f'ledger {ledger}')}: {_named(writing[ledger])}"
            for ledger in sorted(writing, key=lambda each: (each not in ours, each))
        )
        what = f"workers write to {len(writing)} ledgers, {told}; {_STOPPED}"
        yield Check("worker", "failed", what, _MANY_LEDGERS, SetupError.exit_code)
    elif ours and not writing.keys() <= ours.keys():
        (here,), (theirs,) = ours.values(), writing.values()
        what = f"workers write to another ledger than {here}: {_named(theirs)}; {_STOPPED}"
        yield Check("worker", "failed", what, _OTHER_LEDGER, SetupError.exit_code)


def _kinds(asked: Mapping[str, Pollers], settings: Settings) -> Iterator[Check]:
    """That workers serve otherwise than the deployment file says; each is named once."""
    tables = {name: chosen.digest for name, chosen in settings.kinds.items()}
    named: set[str] = set()
    for queue, some in asked.items():
        new = {name: ago for name, ago in some.items() if name not in named}
        named |= new.keys()
        for how, (fault, why) in _DIFFERENCES.items():
            others = {name: ago for name, ago in new.items() if served(name, tables) is how}
            if others:
                told = f"asked for work of task queue {queue} with {fault}: {_named(others)}; {_STOPPED}"
                yield Check("worker", "warning", told, f"give all workers of a task queue {why}")


def _named(some: Pollers) -> str:
    return ", ".join(f"{process_of(name)} ({age(ago)} ago)" for name, ago in some.items())


def nobody_serves(queue: str) -> str:
    """That no worker of a task queue was seen, in words."""
    return f"nobody served task queue {queue} within the last {age(POLL)}"


async def serving(client: TemporalClient, queue: str) -> bool:
    """Whether somebody asked for a task queue's workflow tasks lately.

    Raises:
        RPCError: The server does not say.
    """
    return bool(await asked_lately(client, queue))
