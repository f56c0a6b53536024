"""Where the command finds the deployment."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from ascertain import client as client_module
from ascertain.cli import place, program, stack as stacks
from ascertain.errors import InvalidSettings, LedgerDown, TemporalDown
from ascertain.settings import FILE_VARIABLE, LEDGER_VARIABLE

NAMES = (FILE_VARIABLE, LEDGER_VARIABLE, "TEMPORAL_ADDRESS", "TEMPORAL_NAMESPACE")
OWN = 'task_queue = "own"\n[kinds."a.own"]\nadapter = "http"\n'
SERVED = '[kinds."a.served"]\nadapter = "http"\n'


@pytest.fixture
def alone(tmp_path, monkeypatch):
    """A process in an empty folder for which nothing names a server, a ledger or a file."""
    for name in (*NAMES, *os.environ):
        monkeypatch.setenv(name, "")  # remembered, so that it is put back however it ends
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))  # where the usual stack would be
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def stack(alone):
    """A development stack that runs."""
    data = alone / "ascertain"
    data.mkdir()
    held = stacks.lock(data)
    assert held is not None
    served = alone / "served.toml"
    served.write_text(SERVED)
    stacks.write(data, stacks.Stack(1, "127.0.0.1:1", "default", "postgresql://x/y", str(served)))
    yield stacks.running()
    os.close(held)


def test_a_running_stack_brings_its_deployment_file(stack):
    found = place.find()
    assert found.stack == stack
    assert found.kinds == {"a.served"}
    assert os.environ[LEDGER_VARIABLE] == stack.ledger_url


def test_a_file_that_is_here_counts_beside_a_running_stack_and_the_difference_is_told(
    stack, alone, capsys
):
    (alone / "ascertain.toml").write_text(OWN)
    found = place.find()
    assert found.stack == stack
    assert found.kinds == {"a.own"}
    assert found.settings.task_queue == "own"
    assert capsys.readouterr().err == (
        f"The development stack serves {stack.config}, and not ascertain.toml.\n"
    )


def test_the_very_file_that_the_stack_serves_is_no_difference(stack, capsys):
    os.environ[FILE_VARIABLE] = stack.config
    assert place.find().kinds == {"a.served"}
    assert capsys.readouterr().err == ""


@pytest.mark.usefixtures("stack")
def test_a_file_that_names_a_ledger_is_another_deployment_than_the_stack(alone):
    (alone / "ascertain.toml").write_text('[ledger]\nurl = "postgresql://own/x"\n')
    found = place.find()
    assert found.stack is None
    assert found.settings.ledger_url == "postgresql://own/x"


# The usual address may be somebody else's on this machine.
LISTED = """
import sys
from ascertain import cli, connection
from ascertain.cli import place
connection.DEFAULT_ADDRESS = place.DEFAULT_ADDRESS = {address!r}
sys.argv[1:] = ["list"]
sys.exit(cli.main())
"""


def test_a_server_that_nobody_named_is_named(alone, temporal):
    def list_tasks(**variables: str) -> str:
        program = LISTED.format(address=temporal.address)
        return subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, **variables},
            cwd=alone,
            capture_output=True,
            check=True,
            text=True,
        ).stderr

    said = f"Nothing names a Temporal server, so the one at {temporal.address} is used.\n"
    assert list_tasks().startswith(said)
    assert "Nothing names" not in list_tasks(TEMPORAL_ADDRESS=temporal.address)


@pytest.mark.usefixtures("alone")
async def test_where_a_stack_is_named_that_does_not_run_nobody_elses_server_is_used(monkeypatch):
    monkeypatch.setenv("ASCERTAIN_DATA", "mine")
    with pytest.raises(
        TemporalDown, match=r"names the development stack in .*mine, which does not run"
    ):
        await place.find().client()
    monkeypatch.setenv("TEMPORAL_ADDRESS", "127.0.0.1:1")
    with pytest.raises(TemporalDown, match=r"no Temporal server answers at 127\.0\.0\.1:1"):
        await place.find().client()


# All that need the ledger, and the two that say what they could not ask.
OF_THE_LEDGER = (
    "partitions",
    "top --once",
    "pause p --reason x",
    "resume p",
    "list --quarantined",
    "audit verify",
    "archive --older-than 90d",
    "restored --since 90m --reason x",
    "deliveries t",
    "advise",
    "metrics",
    "metrics --listen 127.0.0.1:1",
    "migrate --check",
    "replay report r",
    "show t",
    "doctor",
)


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize("command", OF_THE_LEDGER)
def test_a_named_stack_that_does_not_run_is_named_by_every_command_that_needs_its_ledger(
    monkeypatch, capsys, command
):
    monkeypatch.setenv("ASCERTAIN_DATA", "mine")
    monkeypatch.setenv("ASCERTAIN_COMMAND", "./run")
    assert program.run(command.split()) == LedgerDown.exit_code
    told = "".join(capsys.readouterr())
    assert "mine, which does not run: start it with `./run dev`" in told
    assert "no ledger" not in told
    assert "none is configured" not in told


async def test_a_worker_of_a_named_stack_that_does_not_run_says_so(cli):
    answer = await cli("worker", code=TemporalDown.exit_code)
    assert f"names the development stack in {cli.folder}/no-stack, which does not run" in answer.err


@pytest.mark.usefixtures("alone")
def test_where_nothing_names_a_ledger_it_is_said_what_can_and_how_one_is_started(capsys):
    assert program.run(["partitions"]) == InvalidSettings.exit_code
    told = capsys.readouterr().err
    assert "no ledger: set ASCERTAIN_LEDGER_URL" in told
    assert "or start a development stack with `ascertain dev`" in told


@pytest.mark.usefixtures("alone")
async def test_an_address_that_cannot_be_read_is_a_wrong_setting_also_for_services():
    os.environ["TEMPORAL_ADDRESS"] = "no such place"
    with pytest.raises(InvalidSettings, match="the connection to Temporal is set wrongly"):
        await client_module.Client.connect()
