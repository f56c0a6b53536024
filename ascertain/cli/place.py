"""Where this command finds the deployment: the environment, the settings file, or a development stack."""

from __future__ import annotations

import logging
import os
from collections.abc import AsyncGenerator, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from temporalio.runtime import Runtime, TelemetryConfig

from ascertain import settings as deployment, telemetry
from ascertain.cli import output, stack as stacks
from ascertain.client import Client
from ascertain.connection import DEFAULT_ADDRESS, connection
from ascertain.errors import LedgerDown, TemporalDown, Unavailable
from ascertain.ledger.delivery import DeliveryBook
from ascertain.ledger.postgres import PostgresLedger, open_ledger
from ascertain.settings import LEDGER_VARIABLE, Settings


@dataclass(frozen=True, slots=True)
class Place:
    """A deployment as this command sees it.

    Attributes:
        stack: The development stack that it is, if it is one.
        assumed: Nothing names a Temporal server, so the usual address is tried.
        stopped: Where the development stack is kept that was named, and does not run.
    """

    settings: Settings
    stack: stacks.Stack | None = None
    assumed: bool = False
    stopped: Path | None = None

    @property
    def has_ledger(self) -> bool:
        """Whether anything names a ledger."""
        return bool(self.settings.named_ledger)

    @property
    def ledger_url(self) -> str:
        """The ledger's address; holds the password.

        Raises:
            LedgerDown: The development stack that was named does not run.
            InvalidSettings: No ledger is named.
        """
        self.must_run(LedgerDown, LEDGER_VARIABLE)
        return self.settings.ledger_url

    @property
    def kinds(self) -> frozenset[str] | None:
        """The kinds of effect that the deployment file names; None if it names none."""
        return frozenset(self.settings.kinds) or None

    def must_run(
        self, without: type[Unavailable] = TemporalDown, variable: str = stacks.ADDRESS_VARIABLE
    ) -> None:
        """See that what was named is there to be talked to.

        Args:
            without: What is missing if it is not.
            variable: Names the same somewhere else.

        Raises:
            Unavailable: As ``without``: the development stack that was named does not run.
        """
        if self.stopped is not None:
            raise without(
                f"{stacks.DATA_VARIABLE} names the development stack in {self.stopped}, which does not run: "
                f"start it with `ascertain dev`, or unset the variable, or set {variable}"
            )

    async def client(self, *, kinds: Collection[str] | None = None) -> Client:
        """Connect to Temporal.

        Args:
            kinds: Tasks of other kinds are refused; None: any is let through.

        Raises:
            TemporalDown: No server answers, or the development stack that was named does not run.
            InvalidSettings: The address cannot be read.
        """
        self.must_run()
        _quiet()
        telemetry.install("ascertain-cli")
        client = await Client.connect(
            task_queue=self.settings.task_queue,
            kinds=kinds,
            deliveries=DeliveryBook(self.settings.ledger_url) if self.has_ledger else None,
        )
        if self.assumed:
            output.note(
                f"Nothing names a Temporal server, so the one at {DEFAULT_ADDRESS} is used."
            )
        return client

    @asynccontextmanager
    async def ledger(self) -> AsyncGenerator[PostgresLedger]:
        """Connect to the ledger.

        Raises:
            InvalidSettings: No ledger is named.
            LedgerDown: It does not answer, or the development stack that was named does not run.
            WrongSchema: It must be migrated first.
        """
        _mute()
        ledger = await open_ledger(self.ledger_url, connections=4)
        try:
            yield ledger
        finally:
            await ledger.aclose()


def find(config: Path | None = None) -> Place:
    """Find the deployment and point this process at it.

    A running development stack is used only where nothing names a Temporal server or a ledger: half of
    one deployment and half of another would tell nonsense. A deployment file that is here, or is named,
    counts in either case.

    Args:
        config: The deployment file, if the command line names one.

    Raises:
        InvalidSettings: The deployment file is wrong.
    """
    chosen = config or deployment.found()
    settings = deployment.load(chosen)
    server = "target_host" in connection()
    ledger = bool(settings.named_ledger)
    stack = None if server or ledger else stacks.running()
    if stack is None:
        named = stacks.named() if not (server or ledger) else None
        return Place(settings, assumed=not server, stopped=named)
    for name, value in stack.environment.items():
        os.environ.setdefault(name, value)
    if chosen is None:
        return Place(deployment.load(Path(stack.config)), stack)
    if not _same(chosen, Path(stack.config)):
        output.note(f"The development stack serves {stack.config}, and not {chosen}.")
    return Place(settings, stack)


def _same(one: Path, other: Path) -> bool:
    return one.resolve() == other.resolve()


@cache
def _mute() -> None:
    """Keep warnings of libraries off the terminal: what matters of them comes back as an error."""
    for library in ("opentelemetry", "asyncpg"):
        logging.getLogger(library).addHandler(logging.NullHandler())


@cache
def _quiet() -> None:
    _mute()
    runtime = Runtime(telemetry=TelemetryConfig(logging=None))
    Runtime.set_default(runtime, error_if_already_set=False)  # a process may have talked before
