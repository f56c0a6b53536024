"""Who asks for work of a deployment's task queues, and to which ledgers they write."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final, TypeAlias

from temporalio.api.enums.v1 import DescribeTaskQueueMode, TaskQueueType
from temporalio.api.taskqueue.v1 import PollerInfo, TaskQueue
from temporalio.api.workflowservice.v1 import DescribeTaskQueueRequest, DescribeTaskQueueResponse
from temporalio.service import RPCError

from ascertain.connection import RPC_TIMEOUT
from ascertain.contracts import names
from ascertain.contracts.poller import ledger_of

if TYPE_CHECKING:
    from temporalio.client import Client

    from ascertain.settings import Settings

# By the names of those who asked for work, how long ago each did.
Pollers: TypeAlias = Mapping[str, timedelta]

# An idle worker asks for work once a minute; the server remembers for minutes who did and died.
POLL: Final = timedelta(seconds=75)


async def asked_everywhere(client: Client, settings: Settings) -> dict[str, Pollers]:
    """Those who ask for work of a deployment's task queues, by queue; its own one, with workflows, first.

    Raises:
        RPCError: The server does not say.
    """
    asked = {settings.task_queue: await asked_lately(client, settings.task_queue)}
    for queue in sorted(_own(settings)):
        kind = TaskQueueType.TASK_QUEUE_TYPE_ACTIVITY
        asked[queue] = await asked_lately(client, queue, kind)
    return asked


async def asked_lately(
    client: Client,
    queue: str,
    work: TaskQueueType.ValueType = TaskQueueType.TASK_QUEUE_TYPE_WORKFLOW,
) -> Pollers:
    """Who asked for a task queue's work. Those with a version are told by one partition of it alone.

    Raises:
        RPCError: The server does not say.
    """
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


def writers(asked: Mapping[str, Pollers]) -> dict[str, dict[str, timedelta]]:
    """By the mark of a ledger those who write to it. Who does not say to which one is left out."""
    found: dict[str, dict[str, timedelta]] = defaultdict(dict)
    for some in asked.values():
        for name, ago in some.items():
            ledger = ledger_of(name)
            if ledger is not None:
                found[ledger][name] = ago
    return found


def alive(pollers: Iterable[PollerInfo], now: datetime) -> dict[str, timedelta]:
    """Who asked for work so lately that it may be believed to live, by name, and how long ago that was.

    When one asked is told by the server's clock, and ``now`` by that of this machine.
    """
    asked: dict[str, timedelta] = {}
    for one in sorted(pollers, key=lambda one: one.identity):
        ago = max(now - one.last_access_time.ToDatetime(UTC), timedelta(0))
        if ago < POLL:
            asked[one.identity] = min(ago, asked.get(one.identity, ago))
    return asked


def _own(settings: Settings) -> set[str]:
    """The task queues that kinds have of their own, or have if their work is long."""
    return {
        chosen.policy.queue or names.queue_of(name, settings.task_queue)
        for name, chosen in settings.kinds.items()
    }


async def _described(
    client: Client, request: DescribeTaskQueueRequest
) -> DescribeTaskQueueResponse:
    return await client.workflow_service.describe_task_queue(request, timeout=RPC_TIMEOUT)
