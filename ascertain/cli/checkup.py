"""``ascertain doctor``: look at every part of a deployment, and never print a secret."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

from temporalio.api.operatorservice.v1 import ListSearchAttributesRequest
from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest, GetSystemInfoRequest
from temporalio.service import RPCError

from ascertain.cli import output, place, poller
from ascertain.cli.check import Check
from ascertain.cli.failure import by_hand
from ascertain.cli.text import counted, plain
from ascertain.cli.wording import age
from ascertain.connection import RPC_TIMEOUT, answered
from ascertain.contracts import names
from ascertain.contracts.secret import named_in
from ascertain.errors import AscertainError, InvalidSettings, SetupError
from ascertain.ledger.session import place as address

if TYPE_CHECKING:
    from temporalio.client import Client as TemporalClient

    from ascertain.cli.place import Place
    from ascertain.settings import KindSettings

_OLDEST_PYTHON: Final = (3, 11)
_ATTRIBUTES: Final = (*names.KEYWORD_ATTRIBUTES, *names.DATETIME_ATTRIBUTES)


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
    ledger, origin = await _ledger(where)
    async for check in _temporal(where, origin):
        yield check
    yield ledger
    for name, chosen in where.settings.kinds.items():
        yield await _adapter(name, chosen, where)
        for check in _secrets(name, chosen):
            yield check


def _python() -> Check:
    version = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info[:2] >= _OLDEST_PYTHON:
        return Check("python", "ok", version)
    return Check("python", "failed", version, "install Python 3.11 or newer", SetupError.exit_code)


async def _temporal(where: Place, origin: str | None) -> AsyncIterator[Check]:
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
    for check in await poller.checks(client, where.settings, origin):
        yield check


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


async def _ledger(where: Place) -> tuple[Check, str | None]:
    """How the ledger is, and which it is: its origin, if it answers."""
    try:
        url = where.ledger_url
        async with where.ledger() as ledger:
            origin = await ledger.upkeep.origin()
            tallies = await ledger.upkeep.tallies()
    except AscertainError as error:
        return _failed("ledger", error), None
    stuck = max(tallies, key=lambda tally: tally.stuck_for, default=None)
    told = "nothing is unresolved"
    if stuck is not None:
        count = counted(sum(tally.count for tally in tallies), "effect is", "effects are")
        told = f"{count} unresolved, the oldest {stuck.state} for {age(stuck.stuck_for)}"
    what = f"{address(url)} has the schema of this release; {told}"
    return Check("ledger", "ok", what), origin


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
