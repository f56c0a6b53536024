"""The development stack: everything that Ascertain needs, under one process, on one data directory."""

from __future__ import annotations

import asyncio
import os
import shlex
import signal
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ascertain import settings as deployment
from ascertain.cli import stack as stacks
from ascertain.errors import SetupError
from ascertain.ledger.migration import migrate
from starter import part as parts, plan as plans
from starter.part import Outside, Worker
from starter.postgres import EmbeddedPostgres
from starter.temporal import TemporalServer

if TYPE_CHECKING:
    from starter.part import Part, Say
    from starter.plan import Plan, Ports

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


async def run(plan: Plan, say: Say, on_ready: Callable[[stacks.Stack, Path | None], None]) -> None:
    """Run the stack until Ctrl-C, SIGTERM or the end of the terminal; then stop it cleanly.

    A second signal ends it at once. What was acknowledged is there at the next start either way.

    Args:
        plan: What to run.
        say: Told everything that is worth a line.
        on_ready: Called once, with the stack and the worker's log, when everything works.

    Raises:
        SetupError: It cannot run here; the message says why.
    """
    ourselves = asyncio.current_task()
    if ourselves is not None:
        for number in _SIGNALS:
            asyncio.get_running_loop().add_signal_handler(number, ourselves.cancel)
    try:
        await _run(plan, say, on_ready)
    except asyncio.CancelledError:
        say("Stopped. The data stay; the next start goes on with them.")


async def _run(plan: Plan, say: Say, on_ready: Callable[[stacks.Stack, Path | None], None]) -> None:
    config = await plans.find_config(plan)
    async with _alone(plan.data), _started(say) as running:
        stack = await _servers_somewhere(plan, config, running, say)
        worker: Worker | None = None
        if plan.worker:
            worker = _worker(plan.data, stack)
            running.append(worker)
            say("Starting a worker ...")
            await worker.start()
        stacks.write(plan.data, stack)
        on_ready(stack, worker.log if worker is not None else None)
        async with asyncio.TaskGroup() as group:
            for part in running:
                group.create_task(parts.keep(part, say))


@asynccontextmanager
async def _alone(data: Path) -> AsyncGenerator[None]:
    """Hold the data directory, and forget what was written down of the stack at the end."""
    held = _held(data)
    if held is None:
        raise SetupError(_in_use(data))
    try:
        stacks.remove(data)  # of a stack that was killed
        yield
    finally:
        stacks.remove(data)
        os.close(held)


def _held(data: Path) -> int | None:
    # PostgreSQL does not run as root, and its user has to pass through.
    mode = 0o711 if os.geteuid() == 0 else 0o700
    try:
        data.mkdir(mode=mode, parents=True, exist_ok=True)
        if any(data.iterdir()) and not stacks.is_ours(data):
            raise SetupError(f"{data} holds something else; choose an empty --data, or a new one")
        data.chmod(mode)
        return stacks.lock(data)
    except OSError as error:
        raise SetupError(
            f"{data} cannot be used: {error.strerror}; choose another --data"
        ) from error


def _in_use(data: Path) -> str:
    other = stacks.running(data)
    which = f" (process {other.pid}, Temporal at {other.temporal_address})" if other else ""
    return (
        f"a development stack runs on {data} already{which}; stop that one first, or choose another "
        "directory with --data"
    )


@asynccontextmanager
async def _started(say: Say) -> AsyncGenerator[list[Part]]:
    """Parts that are running, in the order of their start; stopped in the other order."""
    running: list[Part] = []
    try:
        yield running
    finally:
        if running:
            say("Stopping ...")
        await parts.stop(running[::-1])


async def _servers_somewhere(
    plan: Plan, config: Path | None, running: list[Part], say: Say
) -> stacks.Stack:
    """Start what the worker needs, on other ports where another program was quicker to take one."""
    unused = {plans.UI: plan.headless, plans.OUTSIDE: config is not None}
    idle = [name for name in unused if unused[name]]
    while True:
        ports = plans.choose_ports(plan.port_base, say, idle)
        plans.refuse_beside_another(deployment.load(config), ports.postgres)
        try:
            return await _servers(plan, ports, config, running, say)
        except ExceptionGroup:
            await parts.stop(running[::-1])
            running.clear()
            if plan.port_base is not None or plans.all_free(ports, idle):
                raise


async def _servers(
    plan: Plan, ports: Ports, config: Path | None, running: list[Part], say: Say
) -> stacks.Stack:
    """Start what the worker needs."""
    postgres = EmbeddedPostgres(plan.data / "postgres", port=ports.postgres)
    temporal = TemporalServer(
        plan.data / "temporal", port=ports.temporal, ui_port=None if plan.headless else ports.ui
    )
    running += (postgres, temporal)
    needed: list[Part] = [postgres, temporal]
    if config is None:
        outside = _outside(plan.data, ports.outside)
        running.append(outside)
        needed.append(outside)
    say(f"Starting {', '.join(part.name for part in needed)} ...")
    async with asyncio.TaskGroup() as group:
        for part in needed:
            group.create_task(part.start())
    for name in await migrate(postgres.url):
        say(f"The ledger's schema: applied {name}.")
    outside_url = f"http://127.0.0.1:{ports.outside}" if config is None else None
    if outside_url is not None:
        config = plans.example_config(plan.data, outside_url)
    return stacks.Stack(
        pid=os.getpid(),
        temporal_address=temporal.address,
        namespace=temporal.namespace,
        ledger_url=postgres.url,
        config=str(config),
        ui_url=temporal.ui_url,
        outside_url=outside_url,
    )


def _outside(data: Path, port: int) -> Outside:
    folder = data / "outside"
    kept = ("--books", str(folder / "books.jsonl"), "--rules", str(plans.OUTSIDE_RULES))
    return Outside(
        plans.program("ascertain.testing.outside", "--port", str(port), *kept),
        folder=folder,
        environment=dict(os.environ),
    )


def _worker(data: Path, stack: stacks.Stack) -> Worker:
    return Worker(
        plans.program("ascertain", "worker", "--config", stack.config),
        folder=data / "worker",
        environment=plans.worker_environment(stack, os.environ),
    )


def exports(stack: stacks.Stack) -> list[str]:
    """Lines for a shell, after which every program of ours finds the stack."""
    return [f"export {name}={shlex.quote(value)}" for name, value in stack.environment.items()]
