"""Somebody who reads a page and types what it says, in this checkout, beside a stack of their own."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
from pathlib import Path
from typing import Self

from tests.docs.blocks import ROOT
from tests.waiting import wait_until


class Reader:
    """Types commands; the stack of ``./run dev`` belongs to them alone.

    Attributes:
        temporal_address: Where the stack's Temporal server listens.
        ui_url: Of its Web UI.
    """

    def __init__(self, data: Path, home: Path) -> None:
        self.environment = {
            "HOME": str(home),
            "PATH": os.environ["PATH"],
            "USER": "ada",
            "ASCERTAIN_DATA": str(data),
        }
        self.temporal_address = ""
        self.ui_url = ""
        self.outside_url = ""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_exception: object) -> None:
        if self._stack.returncode is None:
            self._stack.send_signal(signal.SIGINT)
        await self._stack.communicate()

    async def start(self, command: str) -> None:
        """Start a stack, and read where everything is; again if somebody took a port of it meanwhile."""
        async with asyncio.timeout(200):
            said = await self._started(command)
            while "because another program does" in said:
                said = await self._started(command)
        assert "Ctrl-C stops it" in said, said
        found = dict(re.findall(r"^  (Web UI|Temporal|Outside)\s+([^\s,]+)", said, re.MULTILINE))
        self.ui_url = found["Web UI"]
        self.temporal_address = found["Temporal"]
        self.outside_url = found["Outside"].removesuffix("/facts")

    async def _started(self, command: str) -> str:
        """What a stack says until it is ready, or has ended."""
        self._stack = await self._process(command, {})
        said = ""
        while "Ctrl-C stops it" not in said:
            line = await self._stack.stdout.readline()
            if not line:
                await self._stack.wait()
                break
            said += line.decode()
        return said

    async def type(self, command: str, *, code: int = 0) -> str:
        """Run a command and give what it printed."""
        # A reader whose port 7233 is taken sets the variable that the stack has printed.
        other = {} if command.startswith("./run") else {"TEMPORAL_ADDRESS": self.temporal_address}
        process = await self._process(command, other)
        async with asyncio.timeout(200):
            out, _ = await process.communicate()
        assert process.returncode == code, (command, process.returncode, out.decode())
        return out.decode()

    async def see(self, command: str, *expected: str) -> str:
        """Type a command that changes nothing until it shows what the page says it shows."""

        async def shown() -> str | None:
            said = await self.type(command)
            return said if all(word in said for word in expected) else None

        return await wait_until(shown, 200, what=f"{expected} in {command}")

    async def python(self, text: str) -> str:
        """Run a program with the checkout's Python."""
        program = Path(self.environment["HOME"]) / "program.py"
        program.write_text(text)
        return await self.type(f"{sys.executable} {program}")

    async def _process(self, command: str, more: dict[str, str]) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            *("sh", "-euc", command if command.startswith("pin()") else f"exec {command}"),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            cwd=ROOT,
            env=self.environment | more,
        )
