"""One shell in which a whole page is typed: its variables, functions and background processes stay."""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Self

from tests.docs.blocks import ROOT

if TYPE_CHECKING:
    from collections.abc import Mapping

_WITHIN_S: Final = 200
_MOST_BYTES: Final = 4 * 2**20
_ENDED: Final = "--ended-with--"


class Terminal:
    """A shell in this checkout. Whatever it started and left is killed with it.

    Args:
        environment: All of its variables.
        last: A command that it is given when it ends, in whatever way.
    """

    def __init__(self, environment: Mapping[str, str], *, last: str) -> None:
        self._environment = dict(environment)
        self._last = last

    async def __aenter__(self) -> Self:
        self._shell = await asyncio.create_subprocess_exec(
            "sh",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            cwd=ROOT,
            env=self._environment,
            limit=_MOST_BYTES,
            start_new_session=True,  # so that its group is what it started
        )
        # It ends when its input does: here, or because we were killed.
        await self.type(f"trap '{self._last}; trap - EXIT; kill 0' EXIT")
        return self

    async def __aexit__(self, *_exception: object) -> None:
        self._shell.stdin.close()
        try:
            async with asyncio.timeout(_WITHIN_S):
                await self._shell.communicate()
        finally:
            with suppress(ProcessLookupError):
                os.killpg(self._shell.pid, signal.SIGKILL)

    async def type(self, command: str) -> str:
        """Run a command and give what it printed.

        Raises:
            AssertionError: It ended with another code than 0, or the shell did.
        """
        # Not from our pipe: a command that reads its input would read what is typed next.
        typed = f"{{ {command}\n}} </dev/null\nprintf '\\n{_ENDED}%s\\n' $?\n"
        self._shell.stdin.write(typed.encode())
        try:
            async with asyncio.timeout(_WITHIN_S):
                said = await self._shell.stdout.readuntil(f"\n{_ENDED}".encode())
                code = int(await self._shell.stdout.readline())
        except asyncio.IncompleteReadError as error:
            raise AssertionError((command, "the shell ended", error.partial.decode())) from error
        told = said.decode().removesuffix(f"\n{_ENDED}")
        assert code == 0, (command, code, told)
        return told
