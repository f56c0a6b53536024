from __future__ import annotations

import asyncio
import json
import os
import shlex
import signal
import socket
from contextlib import closing
from pathlib import Path
from typing import Self

import pytest

from ascertain import settings
from ascertain.cli import stack as stacks
from ascertain.errors import SetupError
from starter import dev, part, plan
from starter.process import free_port, port_is_free
from tests.cli.conftest import Cli
from tests.waiting import wait_until

FIRST = plan.FIRST_TASK


class Dev:
    """``ascertain dev`` as a process."""

    def __init__(self, cli: Cli, data: Path, *arguments: str) -> None:
        self.cli = cli
        self.data = data
        self.arguments = arguments
        self.said: list[str] = []

    async def __aenter__(self) -> Self:
        self.process = await self.cli.start(
            "dev", "--json", "--headless", "--data", str(self.data), *self.arguments
        )
        self._listening = asyncio.create_task(self._listen())
        text = ""
        async with asyncio.timeout(90):
            while not text.endswith("\n}\n"):
                line = await self.process.stdout.readline()
                assert line, self.said
                text += line.decode()
        self.document = json.loads(text)
        assert "error" not in self.document, self.document
        return self

    async def __aexit__(self, *_exception: object) -> None:
        await self.end(signal.SIGTERM)

    async def end(self, number: signal.Signals) -> int:
        if self.process.returncode is None:
            self.process.send_signal(number)
        await self._listening
        return await self.process.wait()

    async def _listen(self) -> None:
        async for line in self.process.stderr:
            self.said.append(line.decode().rstrip())


@pytest.fixture
def at_home(cli, server_directory) -> Cli:
    """The command of somebody who keeps the stack's data in a folder of their own choice."""
    return Cli({**cli.environment, "ASCERTAIN_DATA": str(server_directory)}, cli.folder)


def free_base() -> int:
    """The first of four ports in a row that nobody listens on."""
    while True:
        base = free_port()
        if all(port_is_free(port) for port in range(base, base + 4)):
            return base


def taken_by_nobody(postgres: int) -> tuple[int, int, int, int]:
    """Ports in the order of the usual ones, with PostgreSQL's as given."""
    return free_port(), free_port(), postgres, free_port()


def worker_pid(data: Path) -> int:
    """The worker's process id, from what it says of itself."""
    log = (data / "worker" / "worker.log").read_text()
    ready = [line for line in log.splitlines() if line.startswith("ready: ")]
    return int(ready[-1].split(" serves ")[0].rsplit(":", 1)[1])


async def test_the_first_task_settles_and_its_result_outlives_the_stack(at_home, server_directory):
    data = server_directory
    base = str(free_base())
    async with Dev(at_home, data, "--port-base", base) as dev:
        assert (data / "stack.json").stat().st_mode & 0o777 == 0o600
        first = await at_home("submit", str(FIRST), "--wait", "--json")
        assert first.document["result"]["outcome"] == "DONE"
        refused = await at_home("dev", code=7)
        assert f"a development stack runs on {data} already (process {dev.process.pid}" in (
            refused.sentence
        )
        killed = worker_pid(data)
        os.kill(killed, signal.SIGKILL)
        await wait_until(lambda: "The worker runs again." in dev.said, 60, what="another worker")
        assert worker_pid(data) != killed
        assert await dev.end(signal.SIGINT) == 0
        assert dev.said[-1] == "Stopped. The data stay; the next start goes on with them."
    ports = [dev.document["temporal_address"].rsplit(":", 1)[1]]
    ports.append(dev.document["ledger_url"].rsplit(":", 1)[1].split("/")[0])
    ports.append(dev.document["outside_url"].rsplit(":", 1)[1])
    assert all(port_is_free(int(port)) for port in ports)
    assert not (data / "stack.json").exists()
    async with Dev(at_home, data, "--port-base", base):
        again = await at_home("result", "first-1", "--within", "30s", "--json")
        assert again.document == first.document["result"]
        twice = await at_home("submit", str(FIRST), "--json")
        assert twice.document["fate"] == "duplicate"
        told = await at_home("explain", "first-1")
        assert "It was sent once and never repeated." in told.out


async def test_a_killed_stack_is_not_taken_for_a_running_one_and_starts_again(
    at_home, server_directory
):
    data = server_directory
    async with Dev(at_home, data, "--no-worker") as dev:
        exported = await at_home("dev", "--env")
        names = dict(shlex.split(line)[1].split("=", 1) for line in exported.out.splitlines())
        assert names == dev.document["environment"]
        checks = (await at_home("doctor", "--json")).document["checks"]
        (worker,) = [check for check in checks if check["part"] == "worker"]
        assert worker["verdict"] == "warning"
        dev.process.kill()
        await dev.process.wait()
    assert (data / "stack.json").exists()
    answer = await at_home("dev", "--env", code=7)
    assert answer.sentence.startswith(f"no development stack runs on {data}")
    assert stacks.running(data) is None
    async with Dev(at_home, data, "--no-worker"):
        assert stacks.running(data) is not None


async def test_a_stack_of_the_usual_folder_is_found_only_where_nothing_else_is_named(
    deployed, server_directory
):
    held = stacks.lock(server_directory)
    served = deployed.cli.environment["ASCERTAIN_CONFIG"]
    stack = stacks.Stack(
        os.getpid(), f"127.0.0.1:{free_port()}", "default", "postgresql://x/y", served
    )
    stacks.write(server_directory, stack)
    usual = {"ASCERTAIN_DATA": str(server_directory)}
    named = await deployed.cli("list", **usual)
    assert named.code == 0
    half = await deployed.cli("partitions", code=7, **usual, ASCERTAIN_LEDGER_URL=None)
    assert half.sentence.startswith("no ledger: ")
    nothing = dict.fromkeys(("TEMPORAL_ADDRESS", "ASCERTAIN_LEDGER_URL", "ASCERTAIN_CONFIG"))
    answer = await deployed.cli("list", code=6, **usual, **nothing)
    assert f"no Temporal server answers at {stack.temporal_address}" in answer.sentence
    os.close(held)


async def test_a_deployment_of_ones_own_is_read_before_anything_is_started(
    at_home, server_directory, tmp_path
):
    (tmp_path / "ascertain.toml").write_text("[kinds\n")
    answer = await at_home("dev", code=7)
    assert "the deployment file ascertain.toml is not TOML" in answer.sentence
    assert list(server_directory.iterdir()) == []


async def test_the_options_of_every_kind_are_looked_at_before_anything_is_started(
    at_home, server_directory, tmp_path
):
    file = tmp_path / "shop.toml"
    fine = (
        '[kinds."a.a"]\nadapter = "compute"\noptions = { function = "math:sqrt" }\n'
        '[kinds."b.b"]\nadapter = "smtp"\n'
        'options = { host = "mail", sender = "a@b.example", username = "a", password = "secret:MAIL" }\n'
    )
    file.write_text(fine.replace("host =", "prot = 25, host ="))
    answer = await at_home("dev", "--config", str(file), code=7)
    assert answer.sentence == (
        f'the deployment file {file}: kinds."b.b".options.prot: there is no such field (did you mean port?)'
    )
    file.write_text(fine)
    answer = await at_home("dev", "--config", str(file), code=7)
    assert "secrets that the kinds of this worker name are missing: MAIL" in answer.sentence
    assert list(server_directory.iterdir()) == []


@pytest.mark.parametrize("variable", ["ASCERTAIN_LEDGER_URL", "ASCERTAIN_LEDGER_URL_FILE"])
async def test_a_stack_is_not_started_beside_the_ledger_of_another_deployment(
    at_home, server_directory, tmp_path, variable
):
    """Its empty ledger would let everything that the other one knows be sent again."""
    url = "postgresql://worker:secret@db.example:5432/ledger"
    file = tmp_path / "ledger_url"
    file.write_text(url)
    named = str(file) if variable.endswith("_FILE") else url
    ports = ("--port-base", str(free_base()))
    answer = await at_home("dev", "--headless", *ports, code=7, **{variable: named})
    assert "this deployment's ledger is the one at db.example:5432" in answer.sentence
    assert "secret" not in answer.sentence
    assert [path.name for path in server_directory.iterdir()] == ["lock"]


def test_the_ledger_that_a_stack_itself_has_named_before_is_its_own():
    url = "postgresql://postgres:secret@127.0.0.1:7432/postgres"
    ours = settings.Settings.model_validate({"ledger": {"url": url}})
    plan.refuse_beside_another(ours, 7432)
    with pytest.raises(SetupError, match="would send it again"):
        plan.refuse_beside_another(ours, 7433)


async def test_a_folder_with_something_else_in_it_is_left_alone(at_home, tmp_path):
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "a.txt").touch()
    before = (tmp_path / "letters").stat().st_mode
    answer = await at_home("dev", "--data", str(tmp_path / "letters"), code=7)
    assert "holds something else; choose an empty --data, or a new one" in answer.sentence
    assert (tmp_path / "letters").stat().st_mode == before


def test_a_usual_port_that_is_taken_is_replaced_by_a_free_one_and_said_so(monkeypatch):
    said: list[str] = []
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        usual = taken.getsockname()[1]
        monkeypatch.setattr(plan, "USUAL", plan.USUAL | {"Temporal": usual})
        ports = plan.choose_ports(None, said.append)
        assert ports.temporal != usual
        assert port_is_free(ports.temporal)
        assert said[0] == (
            f"Port {usual} is taken by another program; Temporal listens on {ports.temporal} instead."
        )


async def test_a_stack_that_lost_a_usual_port_while_it_started_takes_another_one(
    server_directory, monkeypatch
):
    usual = free_port()
    monkeypatch.setattr(plan, "USUAL", dict(zip(plan.USUAL, taken_by_nobody(usual), strict=True)))
    said: list[str] = []
    ready: asyncio.Future[stacks.Stack] = asyncio.get_running_loop().create_future()
    with closing(socket.socket()) as quicker:

        def say(line: str) -> None:
            said.append(line)
            if line.startswith("Starting ") and len(said) == 1:
                quicker.bind(("127.0.0.1", usual))
                quicker.listen()

        wanted = plan.Plan(server_directory, headless=True, worker=False)
        running = asyncio.create_task(
            dev.run(wanted, say, lambda stack, _: ready.set_result(stack))
        )
        async with asyncio.timeout(90):
            await asyncio.wait([running, ready], return_when=asyncio.FIRST_COMPLETED)
        running.cancel()
        await running
    assert (await ready).ledger_url.rsplit(":", 1)[1] != f"{usual}/postgres"
    assert any(line.startswith(f"Port {usual} is taken by another program") for line in said)


async def test_a_port_that_was_asked_for_and_is_taken_is_named_and_nothing_is_started(
    at_home, server_directory
):
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        port = taken.getsockname()[1]
        answer = await at_home("dev", "--headless", "--port-base", str(port), code=7)
    assert answer.sentence == (
        f"port {port}, which --port-base {port} gives to Temporal, is taken by another program: stop that "
        "one, or choose another --port-base"
    )
    assert [path.name for path in server_directory.iterdir()] == ["lock"]


def test_the_port_of_what_is_not_started_does_not_matter():
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        base = taken.getsockname()[1]
        ports = plan.choose_ports(base, print, list(plan.USUAL))
        assert ports == plan.Ports(base, base + 1, base + 2, base + 3)


@pytest.mark.parametrize("base", [0, 65_001])
def test_a_base_without_room_for_all_ports_is_refused(base):
    with pytest.raises(SetupError, match="--port-base must lie between 1 and 65000"):
        plan.choose_ports(base, print)


def test_the_example_is_served_with_the_port_that_its_outside_got(tmp_path):
    usual = f"http://127.0.0.1:{plan.OUTSIDE_PORT}"
    assert plan.example_config(tmp_path, usual) == plan.EXAMPLE
    elsewhere = plan.example_config(tmp_path, "http://127.0.0.1:4711")
    options = settings.load(elsewhere).kinds["note.create"].options
    assert options["base_url"] == "http://127.0.0.1:4711"
    assert usual not in elsewhere.read_text()


def test_what_was_set_for_another_server_does_not_reach_the_worker():
    stack = stacks.Stack(1, "127.0.0.1:7233", "default", "postgresql://x/y", "c.toml")
    ours = {"TEMPORAL_API_KEY": "k", "TEMPORAL_ADDRESS": "cloud:7233", "ASCERTAIN_SECRET_A": "s"}
    found = plan.worker_environment(stack, ours)
    assert found["TEMPORAL_ADDRESS"] == "127.0.0.1:7233"
    assert "TEMPORAL_API_KEY" not in found
    assert found["ASCERTAIN_SECRET_A"] == "s"


async def test_a_part_that_will_not_live_is_started_again_less_and_less_eagerly(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(part, "_FIRST_PAUSE_S", 0.01)

    class Dying(part.Program):
        name = "dying part"
        _ready = "ready"

    said: list[str] = []
    dying = Dying(("/bin/sh", "-c", "echo ready"), folder=tmp_path / "dying", environment={})
    await dying.start()
    keeping = asyncio.create_task(part.keep(dying, said.append))
    await wait_until(lambda: len([s for s in said if "has ended" in s]) >= 3, what="three ends")
    keeping.cancel()
    await asyncio.gather(keeping, return_exceptions=True)
    ends = [line for line in said if "has ended" in line]
    assert ends[0] == "The dying part has ended; it is started again in 0.01 s."
    assert ends[1] == "The dying part has ended; it is started again in 0.02 s."


async def test_a_part_that_ends_before_it_is_ready_is_told_with_its_last_words(tmp_path):
    class Broken(part.Program):
        name = "broken part"
        _ready = "ready"

    broken = Broken(
        ("/bin/sh", "-c", "echo no luck; exit 3"), folder=tmp_path / "b", environment={}
    )
    with pytest.raises(SetupError, match=r"(?s)the broken part ended at once \(3\).*no luck"):
        await broken.start()


async def test_a_second_interruption_ends_what_does_not_stop(tmp_path):
    class Stubborn(part.Program):
        name = "stubborn part"
        _ready = "ready"

    script = "trap '' TERM; echo ready; while :; do sleep 1; done"
    stubborn = Stubborn(("/bin/sh", "-c", script), folder=tmp_path / "s", environment={})
    await stubborn.start()
    stopping = asyncio.create_task(part.stop([stubborn]))
    await asyncio.sleep(0)
    stopping.cancel()
    await asyncio.gather(stopping, return_exceptions=True)
    assert not stubborn.running
