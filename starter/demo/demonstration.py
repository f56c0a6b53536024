"""The whole demonstration: stack, drill, and at the end the outside's own word."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ascertain.contracts.task import TaskOutcome
from ascertain.testing.proxy import FaultProxy
from starter.demo import payment
from starter.demo.books import read_books
from starter.demo.compare import compare
from starter.demo.drill import Drill
from starter.demo.due import dues
from starter.demo.plan import draw
from starter.demo.provider import API_KEY
from starter.demo.report import Report
from starter.demo.seat import Seat
from starter.demo.stack import servers

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterator, Sequence

    from ascertain.contracts.task import Task
    from starter.demo.compare import Due
    from starter.demo.show import Show
    from starter.demo.stack import Stack

_SEATS: Final = ("a", "b")


@dataclass(frozen=True, slots=True)
class Options:
    """What a person may choose.

    Attributes:
        tasks: How many of the payments, from the first; None: all.
        seed: Of the faults.
        naive: Without Ascertain, to see what the faults do.
        keep: Leave everything up at the end, with the Web UI.
    """

    tasks: int | None
    seed: int
    naive: bool
    keep: bool


@dataclass(frozen=True, slots=True)
class Demonstration:
    """A finished run, whose stack is still up.

    Attributes:
        example: The task whose worker was killed, if one was: the most telling one.
    """

    report: Report
    stack: Stack
    example: str


@asynccontextmanager
async def demonstrate(options: Options, show: Show) -> AsyncGenerator[Demonstration]:
    """Run it; everything that was started is stopped at the end.

    The run's folder stays if something went wrong, and with ``keep``.

    Raises:
        AscertainError: A part could not do its work; the message is a sentence that names its log.
    """
    folder = _folder()
    try:
        async with _finished(options, show, folder) as finished:
            yield finished
    except asyncio.CancelledError:
        if not options.keep:
            shutil.rmtree(folder, ignore_errors=True)
        raise
    except Exception:
        show.tell(f"the logs are in {folder}")
        raise
    if finished.report.ok and not options.keep:
        shutil.rmtree(folder, ignore_errors=True)


def _folder() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="ascertain-demo-"))
    folder.chmod(0o711)  # as root, PostgreSQL runs as somebody else and must get to its data
    return folder


@asynccontextmanager
async def _finished(options: Options, show: Show, folder: Path) -> AsyncGenerator[Demonstration]:
    begun = asyncio.get_running_loop().time()
    tasks = payment.load(count=options.tasks)
    async with AsyncExitStack() as closing:
        show.tell("starting the servers")
        stack = await closing.enter_async_context(
            servers(folder, naive=options.naive, web_ui=options.keep)
        )
        seats = [await _seated(closing, stack, name, folder) for name in _SEATS]
        show.tell("starting two workers")
        async with asyncio.TaskGroup() as starting:
            for seat in seats:
                starting.create_task(seat.fill())
        drill = Drill(stack.application, seats, show)
        asked = await _drilled(drill, tasks, stack.temporal.namespace, options.seed)
        if not options.keep:
            await asyncio.gather(*(seat.drain() for seat in seats))
        show.tell("asking the outside what it has")
        account = await stack.application.account()
        books = await read_books(stack.outside.url, API_KEY)
        report = Report(
            tasks=len(tasks),
            comparison=compare(asked, books, account.recorded),
            account=account,
            struck=drill.struck,
            faults=(*_unended(asked, drill), *drill.faults),
            seconds=asyncio.get_running_loop().time() - begun,
            folder=folder,
        )
        yield Demonstration(report, stack, drill.killed or tasks[0].task_id)


async def _seated(closing: AsyncExitStack, stack: Stack, name: str, folder: Path) -> Seat:
    """A seat with its own proxy; nobody sits there yet. What sits there at the end is killed."""
    proxy = await closing.enter_async_context(FaultProxy("127.0.0.1", stack.outside.port))
    program = stack.application.program(name, proxy.url)
    seat = Seat(name, proxy, program, folder, stack.temporal)
    closing.push_async_callback(seat.kill)
    return seat


async def _drilled(
    drill: Drill, tasks: Sequence[Task], namespace: str, seed: int
) -> tuple[Due, ...]:
    """Run the drill; gives every effect that should exist or be refused afterwards."""
    half = len(tasks) // 2
    first, second = dues(tasks[:half], namespace), dues(tasks[half:], namespace)
    await drill.run(tasks[:half], tasks[half:], draw(first, second, seed))
    return (*first, *second)


def _unended(asked: Sequence[Due], drill: Drill) -> Iterator[str]:
    """A sentence for every task that did not end as it should."""
    refused = {due.task_id for due in asked if not due.exists}
    for task_id, state in drill.stands.items():
        should = TaskOutcome.REFUSED if task_id in refused else TaskOutcome.DONE
        if state != should:
            yield f"{task_id} should have ended as {should} and is {state}"
