from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import asyncpg
import pytest
import typer

from ascertain.adapters.wire import Wire
from benchmarks import summary
from benchmarks.call import CallFailed
from benchmarks.command import _contenders
from benchmarks.job import CLAIM, TABLE
from benchmarks.measure import Measured
from benchmarks.peer.restate import RestateServer
from benchmarks.peer.result import SETTLE_AND_TELL, listening
from benchmarks.plan import PEERS, Contender

ROOT = Path(__file__).parents[2]
PINS = ROOT / "benchmarks" / "peer"
PACKAGES = ("dbos", "hypercorn", "procrastinate", "restate")
END_OTHERS = """
select pg_terminate_backend(pid, 5000) from pg_stat_activity
where datname = current_database() and pid <> pg_backend_pid()
"""


@pytest.fixture
def installed(tmp_path, monkeypatch) -> Path:
    """Packages of the peers' names, and a PATH without their programs."""
    for name in PACKAGES:
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").touch()
    programs = tmp_path / "programs"
    programs.mkdir()
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PATH", str(programs))
    return programs


def add_server(programs: Path) -> None:
    (programs / "restate-server").write_text("#!/bin/sh\n")
    (programs / "restate-server").chmod(0o755)


def test_peers_that_are_not_installed_are_asked_for_by_the_command_that_installs_them():
    refused = subprocess.run(
        [sys.executable, "-m", "benchmarks", "--peers"],
        cwd=ROOT,
        check=False,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
    )
    assert refused.returncode == 2
    assert "./run bench --peers" in refused.stderr


def test_a_peer_whose_server_is_not_here_is_left_out_and_named(installed, capsys):
    assert _contenders(None, peers=True) == tuple(
        contender for contender in Contender if contender is not Contender.RESTATE
    )
    (told,) = capsys.readouterr().err.splitlines()
    assert told.startswith("restate is left out: ")
    assert "npm" in told


def test_a_peer_whose_server_is_not_here_is_refused_where_it_is_asked_for(installed):
    with pytest.raises(typer.BadParameter, match=r"restate: .*npm"):
        _contenders([Contender.RESTATE, Contender.CALL], peers=True)
    assert _contenders([Contender.CALL], peers=True) == (Contender.CALL,)


def test_every_peer_is_measured_where_all_is_here(installed, capsys):
    add_server(installed)
    assert set(_contenders(None, peers=True)) == set(Contender) > PEERS
    assert capsys.readouterr().err == ""


def test_what_comes_from_npm_is_pinned_with_its_hash_and_names_no_place():
    wanted = json.loads((PINS / "package.json").read_text())["optionalDependencies"]
    lock = (PINS / "package-lock.json").read_text()
    locked = {
        place.removeprefix("node_modules/"): entry
        for place, entry in json.loads(lock)["packages"].items()
        if place
    }
    assert {name: entry["version"] for name, entry in locked.items()} == wanted
    for entry in locked.values():
        assert re.fullmatch(r"\d+\.\d+\.\d+", entry["version"])
        assert re.fullmatch(r"sha512-[A-Za-z0-9+/]{86}==", entry["integrity"])
    assert "://" not in lock


async def test_a_result_is_heard_when_its_job_is_settled(database):
    connection = await asyncpg.connect(database)
    await connection.execute(TABLE)
    async with listening(database) as results:
        first, second = results.awaited("job-1"), results.awaited("job-2")
        await connection.execute(CLAIM, "job-1")
        await connection.execute(CLAIM, "job-2")
        await connection.execute(SETTLE_AND_TELL, "job-2", "fact-2")
        assert await second == "fact-2"
        assert not first.done()
        async with connection.transaction():
            await connection.execute(SETTLE_AND_TELL, "job-1", "fact-1")
            await connection.fetch("select state from job")
            assert not first.done()
        assert await first == "fact-1"
    await connection.close()


async def test_whoever_waits_is_told_that_the_session_ended_and_another_one_hears(database):
    connection = await asyncpg.connect(database)
    await connection.execute(TABLE)
    async with listening(database) as results:
        lost = results.awaited("job-1")
        await connection.execute(END_OTHERS)
        with pytest.raises(CallFailed, match="ended"):
            await lost
        await results.listen()
        heard = results.awaited("job-1")
        await connection.execute(CLAIM, "job-1")
        await connection.execute(SETTLE_AND_TELL, "job-1", "fact-1")
        assert await heard == "fact-1"
    await connection.close()


async def test_restate_listens_on_this_machine_alone_and_reports_to_nobody(tmp_path):
    wire = Wire()
    server = RestateServer(tmp_path, wire)
    await server._prepare(0)
    settings = tomllib.loads((tmp_path / "restate.toml").read_text())
    places = [
        settings["bind-address"],
        *(settings[part]["bind-address"] for part in ("ingress", "admin")),
    ]
    assert all(re.fullmatch(r"127\.0\.0\.1:\d+", place) for place in places)
    assert len(set(places)) == 3
    assert f"http://{settings['ingress']['bind-address']}" == server.ingress
    assert settings["disable-telemetry"] is True
    await wire.aclose()


def test_nothing_is_aimed_at_over_a_peer_that_is_only_shown():
    nothing = Measured(idle={}, batches=(), events={})
    for peer in (Contender.PROCRASTINATE, Contender.RESTATE):
        assert summary.aims(nothing, [], Contender.ASCERTAIN, peer) == []
