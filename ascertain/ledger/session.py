"""Connections to the ledger's database, and every fault of theirs as one error."""

from __future__ import annotations

import asyncio
import ssl
from contextlib import asynccontextmanager, contextmanager, suppress
from contextvars import Context
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self
from urllib.parse import parse_qs, unquote, urlsplit

import asyncpg

from ascertain.errors import BY_ITSELF, AscertainError, InvalidSettings, LedgerDown, Unavailable
from ascertain.ledger.statement import statement

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Generator, Sequence

    from asyncpg.pool import PoolConnectionProxy


# No answer, or one that says the server cannot work now. A killed server shows as an internal error
# of the client as often as as a lost connection.
FAULTS: Final = (
    OSError,  # TimeoutError too
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    asyncpg.PostgresConnectionError,
    asyncpg.OperatorInterventionError,  # shutting down, starting up, cancelled
    asyncpg.InsufficientResourcesError,  # disk full, too many connections
    asyncpg.PostgresSystemError,
    asyncpg.TransactionRollbackError,  # deadlock
    asyncpg.LockNotAvailableError,
    asyncpg.ReadOnlySQLTransactionError,  # a standby, during a fail-over
    asyncpg.InvalidAuthorizationSpecificationError,
    asyncpg.InvalidCatalogNameError,
    asyncpg.InsufficientPrivilegeError,
)
# What a wrong address or account looks like when a session is opened.
_MISFITS: Final = (
    asyncpg.InvalidAuthorizationSpecificationError,
    asyncpg.InvalidCatalogNameError,
)
_FILES: Final = ("sslrootcert", "sslcert", "sslkey", "sslcrl")
_SETTINGS: Final = {
    "application_name": "ascertain",
    # Days in an interval are days of this zone: nowhere may one have 23 hours.
    "timezone": "UTC",
    "jit": "off",
}
# How long after the server should have given up a statement it counts as hanging.
_GRACE_S: Final = 1


def place(url: str) -> str:
    """Where a database is, fit for messages: without account and password.

    Raises:
        InvalidSettings: The address cannot be read. The message does not show it: it may hold a password.
    """
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise _unreadable() from None
    if parts.scheme not in {"postgres", "postgresql"}:
        raise _unreadable()
    host = parts.hostname or parse_qs(parts.query).get("host", ["the local socket"])[0]
    return f"{host}:{port or 5432}{parts.path}"


async def connect(
    url: str, *, timeout_s: float = 10, down: type[Unavailable] = LedgerDown
) -> asyncpg.Connection[asyncpg.Record]:
    """One connection outside of any pool, for migrations.

    Raises:
        LedgerDown: Nobody answers there.
        InvalidSettings: The address, the account, the database's name or a certificate is wrong.
    """
    with _opening(url, down):
        return await asyncpg.connect(url, timeout=timeout_s, server_settings=_SETTINGS)


@contextmanager
def _opening(url: str, down: type[Unavailable]) -> Generator[None]:
    """What can be wrong when a first connection is opened, as our own errors.

    Raises:
        LedgerDown: (or what it is called) Nobody answers there.
        InvalidSettings: The address, the account, the database's name or a certificate is wrong.
    """
    where = place(url)
    _check_files(url)
    try:
        yield
    except _MISFITS as error:
        raise InvalidSettings(f"the {down.part} at {where} does not let us in: {error}") from error
    except ssl.SSLCertVerificationError as error:
        raise InvalidSettings(
            f"the {down.part} at {where} shows a certificate that is not trusted: {error.verify_message}; "
            "sslrootcert in its address names whose are"
        ) from error
    except asyncpg.ClientConfigurationError as error:
        if "root certificate" not in str(error):
            raise _unreadable() from None
        raise InvalidSettings(
            f"the {down.part} at {where} is to be verified: sslrootcert in its address must name the file "
            "of the certificates that are trusted"
        ) from None
    except ssl.SSLError as error:  # some of them are ValueErrors too
        raise no_answer(url, error, down) from error
    except ValueError:
        raise _unreadable() from None
    except FAULTS as error:
        raise no_answer(url, error, down) from error


def _check_files(url: str) -> None:
    """The client's library says of a file that is missing neither which one it is nor what it is for."""
    for name, (*_, file) in parse_qs(urlsplit(url).query).items():
        if name in _FILES and not Path(file).is_file():
            raise InvalidSettings(
                f"the database's address names {file} as {name}, and there is no such file"
            )


class _UndoneError(Exception):
    """Leaves a transaction without a commit."""


class Transaction:
    """Statements that are committed together at the end, or not at all."""

    def __init__(self, connection: PoolConnectionProxy[asyncpg.Record]) -> None:
        self._connection = connection
        self._undone = False

    async def fetch(self, text: str, *values: Any) -> Sequence[asyncpg.Record]:  # noqa: ANN401  # asyncpg's
        """Run one statement."""
        return await self._connection.fetch(text, *values)

    def undo(self) -> None:
        """Commit nothing of it."""
        self._undone = True

    def close(self) -> None:
        """End it one way or the other."""
        if self._undone:
            raise _UndoneError


class Session:
    """A pool that runs one statement at a time per connection, and says LedgerDown if none answers."""

    def __init__(
        self,
        pool: asyncpg.Pool[asyncpg.Record],
        url: str,
        patience_s: float,
        down: type[Unavailable] = LedgerDown,
    ) -> None:
        self._down = down
        self._pool = pool
        self._url = url
        self._patience_s = patience_s
        self._releasing: set[asyncio.Task[None]] = set()

    @classmethod
    async def open(
        cls,
        url: str,
        *,
        connections: int,
        timeout_s: float,
        command_timeout_s: float,
        down: type[Unavailable] = LedgerDown,
    ) -> Self:
        """Connect once, so that a wrong address shows now.

        Args:
            url: ``postgresql://...``.
            connections: Most connections at a time.
            timeout_s: For a new connection, and to wait for a free one.
            command_timeout_s: For one statement.
            down: What it is called when nobody answers.

        Raises:
            LedgerDown: Nobody answers there.
            InvalidSettings: The address, the account, the database's name or a certificate is wrong.
        """
        with _opening(url, down):
            pool = await asyncpg.create_pool(
                url,
                min_size=1,
                max_size=connections,
                timeout=timeout_s,
                command_timeout=command_timeout_s + _GRACE_S,
                server_settings={
                    **_SETTINGS,
                    # The server gives up first: no claim is granted to a caller who has gone.
                    "statement_timeout": f"{command_timeout_s * 1000:.0f}",
                },
                connect=_connected,
                init=_commit_durably,
                reset=_leave_as_is,
            )
        return cls(pool, url, timeout_s, down)

    async def fetch(self, text: str, *values: Any) -> Sequence[asyncpg.Record]:  # noqa: ANN401  # asyncpg's
        """Run one statement in a transaction of its own.

        Raises:
            LedgerDown: (or what it is called) No answer came, or the server cannot work now.
            InvalidSettings: The account may not do this.
        """
        try:
            async with asyncio.timeout(self._patience_s):
                connection = await self._pool.acquire()
            try:
                found = await connection.fetch(text, *values)
            except BaseException:
                self._release_later(connection)
                raise
        except FAULTS as error:
            raise no_answer(self._url, error, self._down) from error
        await self._release(connection)
        return found

    @asynccontextmanager
    async def transaction(self) -> AsyncGenerator[Transaction]:
        """Several statements and one commit. For the rare ones: it costs round trips and holds locks.

        Raises:
            LedgerDown: No answer came, or the server cannot work now; it may be committed or not.
            InvalidSettings: The account may not do this.
        """
        try:
            async with asyncio.timeout(self._patience_s):
                connection = await self._pool.acquire()
            try:
                with suppress(_UndoneError):
                    async with connection.transaction():
                        transaction = Transaction(connection)
                        yield transaction
                        transaction.close()
            except BaseException:
                self._release_later(connection)
                raise
        except FAULTS as error:
            raise no_answer(self._url, error, self._down) from error
        await self._release(connection)

    async def _release(self, connection: PoolConnectionProxy[asyncpg.Record]) -> None:
        with suppress(*FAULTS):  # it is cut then; what it answered before stands
            await self._pool.release(connection, timeout=self._patience_s)

    def _release_later(self, connection: PoolConnectionProxy[asyncpg.Record]) -> None:
        """Let nobody wait until the server has cancelled a statement; least of all a cancelled caller."""
        task = asyncio.create_task(self._release(connection), context=Context())
        self._releasing.add(task)
        task.add_done_callback(self._releasing.discard)

    async def aclose(self) -> None:
        """Give the connections back; cut those whose statements do not end."""
        try:
            async with asyncio.timeout(self._patience_s):
                await asyncio.gather(*self._releasing)
                await self._pool.close()
        except FAULTS:
            self._pool.terminate()


async def _connected(
    dsn: str | None = None,
    **options: Any,  # noqa: ANN401  # asyncpg's
) -> asyncpg.Connection[asyncpg.Record]:
    """A connection that belongs to nobody: what is done and logged of it is not of who needed it first."""
    return await asyncio.create_task(asyncpg.connect(dsn, **options), context=Context())


async def _commit_durably(connection: asyncpg.Connection[asyncpg.Record]) -> None:
    await connection.execute(statement("commit_durably"))


async def _leave_as_is(_: asyncpg.Connection[asyncpg.Record]) -> None:
    """No statement leaves anything behind, so the pool's reset would be a round trip for nothing."""


def no_answer(url: str, error: Exception, down: type[Unavailable] = LedgerDown) -> AscertainError:
    """The one error that every fault of the connection becomes; another one if the account may not."""
    where = place(url)
    if isinstance(error, asyncpg.InsufficientPrivilegeError):
        return _forbidden(url, error, down)
    said = str(error).strip().partition("\n")[0]
    what = f"{type(error).__name__}: {said}" if said else type(error).__name__
    return down(f"the {down.part} at {where} does not answer ({what}){BY_ITSELF}")


def _forbidden(url: str, error: Exception, down: type[Unavailable]) -> InvalidSettings:
    parts = urlsplit(url)
    name = unquote(
        parts.username or parse_qs(parts.query).get("user", ["of this process's user"])[0]
    )
    migrate = "ascertain migrate" if down is LedgerDown else "ascertain migrate --outbox URL"
    return InvalidSettings(
        f"the {down.part} at {place(url)} does not let the account {name} do this ({error}): use an account "
        f"that has the role for it; `{migrate} --roles`, given by the owner, makes the roles"
    )


def _unreadable() -> InvalidSettings:
    return InvalidSettings(
        "the database's address cannot be read: it must look like "
        "postgresql://account:password@host:5432/database, with special characters percent-encoded"
    )
