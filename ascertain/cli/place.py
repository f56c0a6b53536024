"""Where this command finds the deployment: the environment, the settings file, or a development stack."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from temporalio.envconfig import ClientConfig
from temporalio.runtime import Runtime, TelemetryConfig

from ascertain import settings as deployment
from ascertain.cli import stack as stacks
from ascertain.client import Client
from ascertain.errors import InvalidSettings
from ascertain.ledger.postgres import PostgresLedger, open_ledger
from ascertain.settings import LEDGER_VARIABLE, Settings

_OURS: Final = (stacks.ADDRESS_VARIABLE, LEDGER_VARIABLE)


@dataclass(frozen=True, slots=True)
class Place:
    """A deployment as this command sees it.

    Attributes:
        stack: The development stack that it is, if it is one.
    """

    settings: Settings
    stack: stacks.Stack | None = None

    @property
    def has_ledger(self) -> bool:
        """Whether anything names a ledger."""
        return bool(os.environ.get(LEDGER_VARIABLE) or self.settings.ledger.url)

    @property
    def kinds(self) -> frozenset[str] | None:
        """The kinds of effect that the deployment file names; None if it names none."""
        return frozenset(self.settings.kinds) or None

    async def client(self, *, kinds: Collection[str] | None = None) -> Client:
        """Connect to Temporal.

        Args:
            kinds: Tasks of other kinds are refused; None: any is let through.

        Raises:
            TemporalDown: No server answers.
            InvalidSettings: The address cannot be read.
        """
        _quiet()
        try:
            return await Client.connect(task_queue=self.settings.task_queue, kinds=kinds)
        except ValueError as error:
            raise InvalidSettings(f"the connection to Temporal is set wrongly: {error}") from error

    @asynccontextmanager
    async def ledger(self) -> AsyncGenerator[PostgresLedger]:
        """Connect to the ledger.

        Raises:
            InvalidSettings: No ledger is named.
            LedgerDown: It does not answer.
            WrongSchema: It must be migrated first.
        """
        ledger = await open_ledger(self.settings.ledger_url, connections=4)
        try:
            yield ledger
        finally:
            await ledger.aclose()


def find(config: Path | None = None) -> Place:
    """Find the deployment and point this process at it.

    A running development stack is used only where nothing names a Temporal server or a ledger: half of
    one deployment and half of another would tell nonsense.

    Args:
        config: The deployment file, if the command line names one.

    Raises:
        InvalidSettings: The deployment file is wrong.
    """
    stack = None if _is_named() else stacks.running()
    if stack is not None:
        for name, value in stack.environment.items():
            os.environ.setdefault(name, value)
    return Place(deployment.load(config), stack)


def _is_named() -> bool:
    if any(os.environ.get(name) for name in _OURS):
        return True
    try:
        return "target_host" in ClientConfig.load_client_connect_config()
    except (RuntimeError, ValueError) as error:
        raise InvalidSettings(f"Temporal's own configuration cannot be read: {error}") from error


@cache
def _quiet() -> None:
    """Keep the SDK's own warnings off the terminal: what matters of them comes back as an error."""
    Runtime.set_default(Runtime(telemetry=TelemetryConfig(logging=None)))
