"""The target database of the ``sql`` adapter: sessions whose every step is bounded, and plain values."""

from __future__ import annotations

import asyncio
import errno
import re
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qs, unquote, urlsplit

import asyncpg
import pydantic_core
from asyncpg.connect_utils import SessionAttribute

from ascertain.adapters.reach import REACH, NotListed

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import timedelta


_NAME: Final = re.compile(r"^-- name: (\w+)$", re.MULTILINE)
_pieces = _NAME.split(files("ascertain.adapters").joinpath("dedupe.sql").read_text("utf-8"))
STATEMENTS: Final = dict(zip(_pieces[1::2], (text.strip() for text in _pieces[2::2]), strict=True))

_CONNECT_S: Final = 3
_ANY_PORT: Final = 5432


def _as_text(value: object) -> str:
    """A JSON value as PostgreSQL reads it from text, whatever the parameter's type is."""
    return value if isinstance(value, str) else pydantic_core.to_json(value).decode()


def _number(text: str) -> object:
    value = float(text)
    return value if abs(value) != float("inf") and value == value else text  # noqa: PLR0124 - NaN


_READ: Final[Mapping[str, Callable[[str], object]]] = {
    "bool": lambda text: text == "t",
    "int2": int,
    "int4": int,
    "int8": int,
    "float4": _number,
    "float8": _number,
    "json": pydantic_core.from_json,
    "jsonb": pydantic_core.from_json,
    # Exact values stay as they are written.
    **dict.fromkeys(
        ("numeric", "date", "time", "timetz", "timestamp", "timestamptz", "interval", "uuid"), str
    ),
    **dict.fromkeys(("text", "varchar", "bpchar"), str),
}


def hosts_of(url: str) -> list[str]:
    """The hosts that an address of a database names, in its order; none where it leaves that open."""
    parts = urlsplit(url)
    named = parts.netloc.rpartition("@")[2] or parse_qs(parts.query).get("host", [""])[0]
    return [_host(one) for one in named.split(",") if one]


def _host(place: str) -> str:
    host = place[1:].partition("]")[0] if place.startswith("[") else place.partition(":")[0]
    return unquote(host)


class Target:
    """Sessions in one database. Connects when first used."""

    def __init__(self, connections: int, step: timedelta) -> None:
        self._reach = REACH.get()
        self._connections = connections
        self._step_ms = str(int(step.total_seconds() * 1000))
        self._pool: asyncpg.Pool[asyncpg.Record] | None = None
        self._opening = asyncio.Lock()

    async def sessions(self, url: str) -> asyncpg.Pool[asyncpg.Record]:
        """The pool of sessions."""
        async with self._opening:
            if self._pool is None:
                self._pool = await asyncpg.create_pool(
                    url,
                    min_size=0,
                    max_size=self._connections,
                    timeout=_CONNECT_S,
                    # A standby may not have yet what the primary has.
                    target_session_attrs=SessionAttribute.read_write,
                    # Whoever is left behind by a dead worker ends by itself.
                    server_settings={
                        "application_name": "ascertain-sql",
                        "timezone": "UTC",
                        "statement_timeout": self._step_ms,
                        "lock_timeout": self._step_ms,
                        "idle_in_transaction_session_timeout": self._step_ms,
                    },
                    init=_speak_text,
                    connect=self._connect,
                )
            return self._pool

    async def _connect(
        self,
        dsn: str | None = None,
        **options: Any,  # noqa: ANN401  # the driver's own
    ) -> asyncpg.Connection[asyncpg.Record]:
        await self._check_reach(dsn or "")
        return await asyncpg.connect(dsn, **options)

    async def _check_reach(self, url: str) -> None:
        """Look at where the database's hosts lead to; the driver then resolves them once more by itself.

        Raises:
            NotListed: They lead where the deployment's list does not allow; nothing has left.
            OSError: They cannot be resolved.
        """
        if self._reach is None:
            return
        hosts = hosts_of(url)
        if not hosts:
            raise NotListed(errno.EACCES, "the database's address names no host")
        for host in hosts:
            # A socket of this machine is this machine.
            await self._reach.resolve("localhost" if host.startswith("/") else host, _ANY_PORT)

    async def aclose(self) -> None:
        """Close every session, without waiting for one that hangs."""
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.terminate()


async def _speak_text(session: asyncpg.Connection[asyncpg.Record]) -> None:
    for name, read in _READ.items():
        await session.set_type_codec(
            name, schema="pg_catalog", encoder=_as_text, decoder=read, format="text"
        )
