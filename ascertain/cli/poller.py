"""Who asks for work of a deployment's task queues, and whether they all serve and write to the same."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final, TypeAlias

from temporalio.api.enums.v1 import DescribeTaskQueueMode, TaskQueueType
from temporalio.api.taskqueue.v1 import PollerInfo, TaskQueue
from temporalio.api.workflowservice.v1 import DescribeTaskQueueRequest, DescribeTaskQueueResponse
from temporalio.service import RPCError

from ascertain.cli.check import Check
from ascertain.cli.wording import age
from ascertain.connection import RPC_TIMEOUT
from ascertain.contracts import names
from ascertain.contracts.poller import Served, ledger_of, mark, process_of, served
from ascertain.ledger.session import place

if TYPE_CHECKING:
    from temporalio.client import Client as TemporalClient

    from ascertain.settings import Settings

# By task queue: the names of those who asked for its work, and how long ago each did.
Asked: TypeAlias = Mapping[str, Mapping[str, timedelta]]

# An idle worker asks for work once a minute; the server remembers for minutes who did and died.
_POLL: Final = timedelta(seconds=75)

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
_STOPPED: Final = f"one that was stopped since is named for {age(_POLL)}"
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
        asked = {queue: await _asked(client, queue)}
        for own in sorted(_own(settings)):
            asked[own] = await _asked(client, own, TaskQueueType.TASK_QUEUE_TYPE_ACTIVITY)
    except RPCError as error:
        told = f"the server does not say who polls ({error.message})"
        return [Check("worker", "skipped", told)]
    wrong = [*_ledgers(asked, settings, origin), *_kinds(asked, settings)]
    if not asked[queue]:
        still = f"{nobody_serves(queue)}, so tasks stand still"
        wrong.append(Check("worker", "warning", still, "start one with `ascertain worker`"))
    told = f"asked for work of task queue {queue}: {_named(asked[queue])}; {_STOPPED}"
    return wrong or [Check("worker", "ok", told)]


def _own(settings: Settings) -> set[str]:
    """The task queues that kinds have of their own, or have if their work is long."""
    return {
        chosen.policy.queue or names.queue_of(name, settings.task_queue)
        for name, chosen in settings.kinds.items()
    }


def _ledgers(asked: Asked, settings: Settings, origin: str | None) -> Iterator[Check]:
    """That workers write to other ledgers than each other, or than the one that this command reads."""
    writers: dict[str, dict[str, timedelta]] = defaultdict(dict)
    for some in asked.values():
        for name, ago in some.items():
            ledger = ledger_of(name)
            if ledger is not None:
                writers[ledger][name] = ago
    ours = {} if origin is None else {mark(origin): f"this one, at {place(settings.ledger_url)}"}
    if len(writers) > 1:
        told = "; ".join(
            f"{ours.get(ledger, f'ledger {ledger}')}: {_named(writers[ledger])}"
            for ledger in sorted(writers, key=lambda each: (each not in ours, each))
        )
        what = f"workers write to {len(writers)} ledgers, {told}; {_STOPPED}"
        yield Check("worker", "warning", what, _MANY_LEDGERS)
    elif ours and not writers.keys() <= ours.keys():
        (here,), (theirs,) = ours.values(), writers.values()
        what = f"workers write to another ledger than {here}: {_named(theirs)}; {_STOPPED}"
        yield Check("worker", "warning", what, _OTHER_LEDGER)


def _kinds(asked: Asked, settings: Settings) -> Iterator[Check]:
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


def _named(some: Mapping[str, timedelta]) -> str:
    return ", ".join(f"{process_of(name)} ({age(ago)} ago)" for name, ago in some.items())


def nobody_serves(queue: str) -> str:
    """That no worker of a task queue was seen, in words."""
    return f"nobody served task queue {queue} within the last {age(_POLL)}"


async def serving(client: TemporalClient, queue: str) -> bool:
    """Whether somebody asked for a task queue's workflow tasks lately.

    Raises:
        RPCError: The server does not say.
    """
    return bool(await _asked(client, queue))


async def _asked(
    client: TemporalClient,
    queue: str,
    work: TaskQueueType.ValueType = TaskQueueType.TASK_QUEUE_TYPE_WORKFLOW,
) -> dict[str, timedelta]:
    """Who asked for its work. Those with a version are told by one partition of it alone."""
    request = DescribeTaskQueueRequest(
        namespace=client.namespace, task_queue=TaskQueue(name=queue), task_queue_type=work
    )
    found = [*(await _described(client, request)).pollers]
    # A plain description is of one partition of the queue, where some workers never happen to ask.
    request.api_mode = DescribeTaskQueueMode.DESCRIBE_TASK_QUEUE_MODE_ENHANCED
    request.report_pollers = True
    request.task_queue_types.append(work)
    with suppress(RPCError):  # a server that does not know it
        for version in (await _described(client, request)).versions_info.values():
            found += [one for info in version.types_info.values() for one in info.pollers]
    return alive(found, datetime.now(UTC))


async def _described(
    client: TemporalClient, request: DescribeTaskQueueRequest
) -> DescribeTaskQueueResponse:
    return await client.workflow_service.describe_task_queue(request, timeout=RPC_TIMEOUT)


def alive(pollers: Iterable[PollerInfo], now: datetime) -> dict[str, timedelta]:
    """Who asked for work so lately that it may be believed to live, by name, and how long ago that was."""
    asked: dict[str, timedelta] = {}
    for one in sorted(pollers, key=lambda one: one.identity):
        ago = now - one.last_access_time.ToDatetime(UTC)
        if ago < _POLL:
            asked[one.identity] = min(ago, asked.get(one.identity, ago))
    return asked
