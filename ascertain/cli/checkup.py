"""``ascertain doctor``: look at every part of a deployment, and never print a secret."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from temporalio.api.enums.v1 import TaskQueueType
from temporalio.api.operatorservice.v1 import ListSearchAttributesRequest
from temporalio.api.taskqueue.v1 import PollerInfo, TaskQueue
from temporalio.api.workflowservice.v1 import (
    DescribeNamespaceRequest,
    DescribeTaskQueueRequest,
    GetSystemInfoRequest,
)
from temporalio.service import RPCError

from ascertain.cli import output, place
from ascertain.cli.failure import by_hand
from ascertain.cli.text import counted, plain
from ascertain.cli.wording import age
from ascertain.connection import RPC_TIMEOUT, answered
from ascertain.contracts import names
from ascertain.contracts.poller import Served, served
from ascertain.contracts.secret import named_in
from ascertain.errors import AscertainError, InvalidSettings, SetupError
from ascertain.ledger.session import place as address

if TYPE_CHECKING:
    from temporalio.client import Client as TemporalClient

    from ascertain.cli.place import Place
    from ascertain.settings import KindSettings

Verdict = Literal["ok", "warning", "failed", "skipped"]

_OLDEST_PYTHON: Final = (3, 11)
_ATTRIBUTES: Final = (*names.KEYWORD_ATTRIBUTES, *names.DATETIME_ATTRIBUTES)
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


@dataclass(frozen=True, slots=True)
class Check:
    """What one look came to.

    Attributes:
        advice: What to do about it, where something is to be done.
        exit_code: Of the command, if this is the first that failed.
    """

    part: str
    verdict: Verdict
    detail: str
    advice: str = ""
    exit_code: int = 0

    def document(self) -> dict[str, object]:
        """As one JSON object."""
        return {
            "part": self.part,
            "verdict": self.verdict,
            "detail": self.detail,
            "advice": self.advice or None,
        }


async def doctor(config: Path | None, *, as_json: bool) -> int:
    """Print every check.

    Returns:
        0, or the exit code of the first check that failed.
    """
    found: list[Check] = []
    async for check in _checks(config):
        found.append(check)
        if not as_json:
            _print(check)
    if as_json:
        output.document({"checks": [check.document() for check in found]})
    return next((check.exit_code for check in found if check.verdict == "failed"), 0)


def _print(check: Check) -> None:
    output.line(f"{check.verdict:<9}{check.part}: {plain(check.detail)}")
    if check.advice:
        output.line(f"{'':<9}  {plain(check.advice)}")
    output.flush()


async def _checks(config: Path | None) -> AsyncIterator[Check]:
    yield _python()
    try:
        where = place.find(config)
    except AscertainError as error:
        yield _failed("settings", error)
        return
    kinds = ", ".join(sorted(where.settings.kinds)) or "none"
    yield Check("settings", "ok", f"kinds of effect: {kinds}")
    async for check in _temporal(where):
        yield check
    yield await _ledger(where)
    for name, chosen in where.settings.kinds.items():
        yield await _adapter(name, chosen, where)
        for check in _secrets(name, chosen):
            yield check


def _python() -> Check:
    version = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info[:2] >= _OLDEST_PYTHON:
        return Check("python", "ok", version)
    return Check("python", "failed", version, "install Python 3.11 or newer", SetupError.exit_code)


async def _temporal(where: Place) -> AsyncIterator[Check]:
    try:
        client = (await where.client()).temporal
        with answered(f"look at namespace {client.namespace}"):
            info = await client.workflow_service.get_system_info(
                GetSystemInfoRequest(), timeout=RPC_TIMEOUT
            )
            await client.workflow_service.describe_namespace(
                DescribeNamespaceRequest(namespace=client.namespace), timeout=RPC_TIMEOUT
            )
    except AscertainError as error:
        yield _failed("temporal", error)
        return
    at = client.service_client.config.target_host
    whose = " (the development stack)" if where.stack is not None else ""
    yield Check(
        "temporal",
        "ok",
        f"server {info.server_version} at {at}{whose}, namespace {client.namespace}",
    )
    yield await _attributes(client)
    yield await _pollers(client, where)


async def _attributes(client: TemporalClient) -> Check:
    request = ListSearchAttributesRequest(namespace=client.namespace)
    try:
        present = await client.operator_service.list_search_attributes(request, timeout=RPC_TIMEOUT)
    except RPCError as error:
        return Check(
            "search attributes",
            "skipped",
            f"the server does not let us list them ({error.message})",
            f"see that these are there: {', '.join(_ATTRIBUTES)}",
        )
    missing = [name for name in _ATTRIBUTES if name not in present.custom_attributes]
    if not missing:
        return Check("search attributes", "ok", ", ".join(_ATTRIBUTES))
    return Check(
        "search attributes",
        "failed",
        f"not registered: {', '.join(missing)}",
        "start a worker, which registers them or says how",
        SetupError.exit_code,
    )


async def _pollers(client: TemporalClient, where: Place) -> Check:
    queue = where.settings.task_queue
    try:
        asked = await _asked(client, queue)
    except RPCError as error:
        return Check("worker", "skipped", f"the server does not say who polls ({error.message})")
    if not asked:
        still = f"{nobody_serves(queue)}, so tasks stand still"
        return Check("worker", "warning", still, "start one with `ascertain worker`")
    tables = {name: chosen.digest for name, chosen in where.settings.kinds.items()}
    stopped = f"one that was stopped since is named for {age(_POLL)}"
    for how, (fault, why) in _DIFFERENCES.items():
        others = {name: ago for name, ago in asked.items() if served(name, tables) is how}
        if others:
            told = f"asked for work of task queue {queue} with {fault}: {_named(others)}; {stopped}"
            return Check("worker", "warning", told, f"give all workers of a task queue {why}")
    told = f"asked for work of task queue {queue}: {_named(asked)}; {stopped}"
    return Check("worker", "ok", told)


def _named(asked: Mapping[str, timedelta]) -> str:
    return ", ".join(f"{name} ({age(ago)} ago)" for name, ago in asked.items())


def nobody_serves(queue: str) -> str:
    """That no worker of a task queue was seen, in words."""
    return f"nobody served task queue {queue} within the last {age(_POLL)}"


async def serving(client: TemporalClient, queue: str) -> bool:
    """Whether somebody asked for a task queue's workflow tasks lately.

    Raises:
        RPCError: The server does not say.
    """
    return bool(await _asked(client, queue))


async def _asked(client: TemporalClient, queue: str) -> dict[str, timedelta]:
    request = DescribeTaskQueueRequest(
        namespace=client.namespace,
        task_queue=TaskQueue(name=queue),
        task_queue_type=TaskQueueType.TASK_QUEUE_TYPE_WORKFLOW,
    )
    found = await client.workflow_service.describe_task_queue(request, timeout=RPC_TIMEOUT)
    return alive(found.pollers, datetime.now(UTC))


def alive(pollers: Iterable[PollerInfo], now: datetime) -> dict[str, timedelta]:
    """Who asked for work so lately that it may be believed to live, by name, and how long ago that was."""
    asked: dict[str, timedelta] = {}
    for one in sorted(pollers, key=lambda one: one.identity):
        ago = now - one.last_access_time.ToDatetime(UTC)
        if ago < _POLL:
            asked[one.identity] = min(ago, asked.get(one.identity, ago))
    return asked


async def _ledger(where: Place) -> Check:
    try:
        url = where.ledger_url
        async with where.ledger() as ledger:
            tallies = await ledger.upkeep.tallies()
    except AscertainError as error:
        return _failed("ledger", error)
    stuck = max(tallies, key=lambda tally: tally.stuck_for, default=None)
    told = "nothing is unresolved"
    if stuck is not None:
        count = counted(sum(tally.count for tally in tallies), "effect is", "effects are")
        told = f"{count} unresolved, the oldest {stuck.state} for {age(stuck.stuck_for)}"
    return Check("ledger", "ok", f"{address(url)} has the schema of this release; {told}")


async def _adapter(name: str, chosen: KindSettings, where: Place) -> Check:
    part = f"kind {name}"
    if find_spec("workers") is None:
        return Check(
            part, "skipped", "the application is not installed here, so no adapter is loaded"
        )
    settings = where.settings.model_copy(update={"kinds": {name: chosen}})
    secrets = import_module("workers.secret").ProcessSecrets()
    try:
        kind = import_module("workers.registry").build_kinds(settings, secrets)[name]
        await kind.adapter.aclose()
    except AscertainError as error:
        return _failed(part, error)
    except Exception as error:  # noqa: BLE001 - an adapter of somebody else may raise anything
        what = f"the adapter {chosen.adapter} raised {type(error).__qualname__} when it was built"
        return _failed(part, InvalidSettings(what))
    return Check(part, "ok", f"adapter {chosen.adapter}")


def _secrets(name: str, chosen: KindSettings) -> Iterator[Check]:
    if find_spec("workers") is None:
        return
    secrets = import_module("workers.secret").ProcessSecrets()
    for secret in sorted(named_in(chosen.options)):
        part = f"secret {secret}"
        try:
            secrets.reveal(secret)
        except AscertainError as error:
            yield _failed(part, error)
        else:
            yield Check(part, "ok", f"is here, for kind {name}")


def _failed(part: str, error: AscertainError) -> Check:
    return Check(part, "failed", by_hand(str(error)), exit_code=error.exit_code)
