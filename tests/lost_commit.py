"""A database that commits and then says nothing: whoever asked loses the connection and never hears of it."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import asyncpg

from tests.waiting import wait_until

# A commit that waits for a standby is on disk already; nothing short of a crash takes it back.
SILENT = """
    select pid from pg_stat_activity
    where datname = $1 and application_name = 'ascertain' and wait_event = 'SyncRep'
"""


@asynccontextmanager
async def lost_commit(url: str) -> AsyncGenerator[None]:
    """What is committed durably within is committed, and its connection is cut before that is said.

    At the end one such commit has been cut off. Touches the server's configuration, so nothing else may
    commit durably there meanwhile.
    """
    admin = await asyncpg.connect(url, server_settings={"synchronous_commit": "local"})
    try:
        await admin.execute("alter system set synchronous_standby_names = 'nobody'")
        await admin.execute("select pg_reload_conf()")
        yield
        name = urlsplit(url).path.removeprefix("/")
        silent = await wait_until(lambda: admin.fetchval(SILENT, name), what="a commit in silence")
        await admin.execute("alter system reset synchronous_standby_names")
        await admin.execute("select pg_terminate_backend($1)", silent)
    finally:
        await admin.execute("alter system reset synchronous_standby_names")
        await admin.execute("select pg_reload_conf()")
        await admin.close()
