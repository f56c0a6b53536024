from __future__ import annotations

import json
import re
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from importlib.metadata import version

import asyncpg
import pytest
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp
from temporalio.api.taskqueue.v1 import PollerInfo
from temporalio.api.workflowservice.v1 import RegisterNamespaceRequest

from activities.serving import Serving
from ascertain import poller
from ascertain.contracts.names import SWEEP, schedule_of
from ascertain.errors import MissingSecret
from ascertain.ledger import migration
from ascertain.ledger.postgres import open_ledger
from starter.process import free_port
from tests.waiting import wait_until
from workers.worker import Role, build_workers


@pytest.fixture
async def bare(postgres):
    """A database without a schema."""
    yield await postgres.create_database("cli_bare")
    await postgres.drop_database("cli_bare")


async def test_doctor_finds_a_working_deployment_in_order_and_shows_no_secret(deployed):
    answer = await deployed.cli("doctor")
    assert {line.split()[0] for line in answer.out.splitlines()} == {"ok"}
    assert "kind note.create: adapter http" in answer.out
    assert "worker: asked for work of task queue cli: " in answer.out
    password = deployed.cli.environment["ASCERTAIN_LEDGER_URL"].split(":")[2].split("@")[0]
    assert len(password) > 8
    assert password not in answer.out
    checks = (await deployed.cli("doctor", "--json")).document["checks"]
    assert [check["part"] for check in checks][:6] == [
        "python",
        "settings",
        "temporal",
        "search attributes",
        "worker",
        "ledger",
    ]


async def test_doctor_says_what_to_do_about_everything_that_fails(deployed, bare, tmp_path):
    config = tmp_path / "wrong.toml"
    config.write_text(
        'task_queue = "nobody-here"\n'
        '[kinds."a.one"]\nadapter = "htp"\n'
        '[kinds."b.two"]\nadapter = "http"\n'
        'options = { base_url = "http://x", headers = { Authorization = "Bearer secret:NOTES_KEY" } }\n'
    )
    answer = await deployed.cli(
        "doctor", "--config", str(config), "--json", code=7, ASCERTAIN_LEDGER_URL=bare
    )
    found = {check["part"]: check for check in answer.document["checks"]}
    assert found["worker"]["verdict"] == "warning"
    assert "ascertain worker" in found["worker"]["advice"]
    assert found["ledger"]["verdict"] == "failed"
    assert "run `ascertain migrate`" in found["ledger"]["detail"]
    unknown = f'the deployment file {config}: kinds."a.one".adapter: no adapter is named htp'
    assert found["kind a.one"]["detail"].startswith(f"{unknown} (did you mean http?); there are: ")
    assert found["kind b.two"]["verdict"] == "failed"
    assert "set ASCERTAIN_SECRET_NOTES_KEY" in found["secret NOTES_KEY"]["detail"]


async def test_doctor_tells_when_a_worker_serves_the_kinds_of_another_file(deployed, tmp_path):
    text = (deployed.folder / "deployment.toml").read_text()
    other = tmp_path / "other.toml"
    other.write_text(text.replace("timeout = 3", "timeout = 2", 1))
    answer = await deployed.cli("doctor", "--config", str(other), "--json")
    (worker,) = [check for check in answer.document["checks"] if check["part"] == "worker"]
    assert worker["verdict"] == "warning"
    assert (
        "with the kinds of this deployment file, but another adapter, options," in worker["detail"]
    )
    assert "give all workers of a task queue the same file" in worker["advice"]
    other.write_text(text.replace("note.blind", "note.blynd"))
    answer = await deployed.cli("doctor", "--config", str(other), "--json")
    (worker,) = [check for check in answer.document["checks"] if check["part"] == "worker"]
    assert "with other kinds than this deployment file" in worker["detail"]


@pytest.fixture
async def second(postgres, template):
    """Another ledger, with nothing in it."""
    yield await postgres.create_database("cli_second", template=template)
    await postgres.drop_database("cli_second")


async def test_doctor_tells_when_the_workers_write_to_another_ledger_than_it_reads(
    deployed, second
):
    answer = await deployed.cli("doctor", "--json", code=7, ASCERTAIN_LEDGER_URL=second)
    (worker,) = [check for check in answer.document["checks"] if check["part"] == "worker"]
    assert worker["verdict"] == "failed"
    assert worker["detail"].startswith("workers write to another ledger than this one, at ")
    assert "/cli_second: " in worker["detail"]
    assert "give this command and the workers the same ASCERTAIN_LEDGER_URL" in worker["advice"]


async def test_a_worker_does_not_start_beside_those_that_write_to_another_ledger(
    deployed, second, tmp_path
):
    text = (deployed.folder / "deployment.toml").read_text()
    config = tmp_path / "theirs.toml"
    config.write_text(text.replace("sweep_every = 3600", "sweep_every = 7"))
    worker = ("worker", "--log-level", "error", "--config", str(config))
    answer = await deployed.cli(*worker, code=7, ASCERTAIN_LEDGER_URL=second)
    assert answer.out == ""
    assert "this worker does not start: it would write to the ledger at " in answer.sentence
    assert "/cli_second, and others who asked for work of its task queues" in answer.sentence
    assert re.search(r"sent again what this one knows: \S+:\d+ \(\d+ s ago\)", answer.sentence)
    assert "start this one 75 s after the last has stopped" in answer.sentence
    sweep = deployed.client.temporal.get_schedule_handle(schedule_of(SWEEP, "cli"))
    (swept,) = (await sweep.describe()).schedule.spec.intervals
    assert swept.every == timedelta(hours=1)  # who is refused has changed nothing of theirs


@asynccontextmanager
async def writing_to(url, client, queue):
    """A worker that started in the same moment as another, and was not seen."""
    ledger = await open_ledger(url)
    serving = Serving(ledger, {}, "there:2", origin=await ledger.upkeep.origin())
    (worker,) = build_workers(client, serving, Role(()), queue)
    async with worker:
        yield
    await ledger.aclose()


async def test_doctor_tells_workers_apart_that_write_to_different_ledgers(
    deployed, second, tmp_path
):
    config = tmp_path / "two.toml"
    queue = deployed.new_id("two")  # whoever ran before on it is not forgotten for a while
    config.write_text(f'task_queue = "{queue}"')
    doctor = ("doctor", "--config", str(config), "--json")

    async def told(**ledger):
        process = await deployed.cli.start(*doctor, **ledger)
        out, _ = await process.communicate()
        checks = [each for each in json.loads(out)["checks"] if "2 ledgers" in each["detail"]]
        return [*checks, process.returncode] if checks else None

    worker = await deployed.cli.start("worker", "--config", str(config))
    try:
        assert b"ready:" in await worker.stdout.readline()
        async with writing_to(second, deployed.client.temporal, queue):
            check, code = await wait_until(told, what="both workers")
            assert (check["verdict"], code) == ("failed", 7)
            ours = f":{worker.pid} ("
            this, other = check["detail"].split("; ")[:2]
            assert this.startswith("workers write to 2 ledgers, this one, at ")
            assert ours in this
            assert "there:2 (" in other
            assert "stop those on the wrong one now" in check["advice"]
            check, _ = await told(ASCERTAIN_LEDGER_URL=second)
            this, other = check["detail"].split("; ")[:2]
            assert "there:2 (" in this
            assert ours in other
    finally:
        worker.terminate()
        await worker.communicate()


def test_a_worker_that_died_is_not_believed_to_serve_for_as_long_as_the_server_remembers_it():
    now = datetime(2026, 3, 4, 3, 0, tzinfo=UTC)

    def asked(name, seconds):
        at = Timestamp()
        at.FromDatetime(now - timedelta(seconds=seconds))
        return PollerInfo(identity=name, last_access_time=at)

    assert poller.alive([asked("b", 60), asked("dead", 120), asked("a", 1)], now) == {
        "a": timedelta(seconds=1),
        "b": timedelta(seconds=60),
    }
    ahead = poller.alive([asked("by a clock ahead of ours", -40)], now)
    assert ahead == {"by a clock ahead of ours": timedelta(0)}


async def test_doctor_names_the_search_attributes_that_are_missing(deployed):
    service = deployed.client.temporal.workflow_service
    await service.register_namespace(
        RegisterNamespaceRequest(
            namespace="unlabelled", workflow_execution_retention_period=Duration(seconds=86_400)
        )
    )

    async def found():
        process = await deployed.cli.start("doctor", "--json", TEMPORAL_NAMESPACE="unlabelled")
        out, _ = await process.communicate()
        checks = {check["part"]: check for check in json.loads(out)["checks"]}
        check = checks.get("search attributes")
        return check if check is not None and check["verdict"] != "skipped" else None

    # A new namespace is known everywhere only after a while.
    check = await wait_until(found, 60, what="the namespace")
    assert check["verdict"] == "failed"
    assert "not registered: TaskKind, TaskPartition, TaskState" in check["detail"]
    assert "start a worker" in check["advice"]


async def test_what_is_advised_begins_with_what_was_typed(cli):
    away = {"TEMPORAL_ADDRESS": f"127.0.0.1:{free_port()}"}
    for called in ("ascertain", "./run"):
        advised = f"start a development stack with `{called} dev`"
        answer = await cli("partitions", "--json", code=7, ASCERTAIN_COMMAND=called, **away)
        assert advised in answer.sentence
        assert advised in answer.document["error"]["message"]
        told = await cli("doctor", code=6, ASCERTAIN_COMMAND=called, **away)
        assert advised in told.out


async def test_doctor_says_what_cannot_be_reached(cli):
    away = free_port()
    url = f"postgresql://ascertain:hunter2@127.0.0.1:{away}/x"
    given = {"TEMPORAL_ADDRESS": f"127.0.0.1:{away}", "ASCERTAIN_LEDGER_URL": url}
    answer = await cli("doctor", code=6, **given)
    assert f"no Temporal server answers at 127.0.0.1:{away}: start that one again" in answer.out
    assert f"ledger: the ledger at 127.0.0.1:{away}/x does not answer" in answer.out
    assert "nothing is known to be changed: give the same command again" in answer.out
    assert "by itself" not in answer.out
    assert "hunter2" not in answer.out


async def test_doctor_names_the_key_that_is_wrong_in_the_deployment_file(cli, tmp_path):
    config = tmp_path / "ascertain.toml"
    config.write_text('[kinds."a.b"]\nadaptor = "http"\n')
    answer = await cli("doctor", code=7)
    assert 'failed   settings: the deployment file ascertain.toml: kinds."a.b".adapt' in answer.out


async def test_a_ledger_is_migrated_once_and_checked(cli, bare):
    before = await cli("migrate", "--check", "--json", code=7, ASCERTAIN_LEDGER_URL=bare)
    assert before.document["error"]["code"] == "wrong_schema"
    assert before.sentence == "the ledger has no schema yet: run `ascertain migrate`"
    names = [found.name for found in migration.migrations()]
    first = await cli("migrate", "--json", ASCERTAIN_LEDGER_URL=bare)
    assert first.document["applied"] == names
    again = await cli("migrate", ASCERTAIN_LEDGER_URL=bare)
    assert "applied" not in again.out
    assert "has the schema of this release" in again.out
    await cli("migrate", "--check", ASCERTAIN_LEDGER_URL=bare)


async def test_a_newer_schema_is_refused_in_one_sentence(deployed, bare):
    await migration.migrate(bare)
    connection = await asyncpg.connect(bare)
    await connection.execute(
        "insert into ascertain.migrations values ('9999_post_later.sql', repeat('0', 64))"
    )
    await connection.close()
    for command in (("partitions",), ("migrate", "--check"), ("worker",)):
        answer = await deployed.cli(*command, code=7, ASCERTAIN_LEDGER_URL=bare)
        last = answer.err.splitlines()[-1]
        assert "the ledger's schema is newer than this release (9999_post_later.sql" in last


async def test_a_ledger_address_that_cannot_be_read_is_told_without_showing_it(cli):
    answer = await cli("migrate", code=7, ASCERTAIN_LEDGER_URL="postgres//u:hunter2@h/x")
    assert "the database's address cannot be read" in answer.sentence
    assert "hunter2" not in answer.err


async def test_version_tells_what_a_report_of_a_fault_needs(cli):
    found = (await cli("version", "--json")).document
    assert found["ascertain"] == version("ascertain")
    assert {"python", "temporalio"} <= set(found)
    assert (await cli("--version")).out == f"{version('ascertain')}\n"


async def test_a_worker_with_a_wrong_deployment_ends_with_its_reason(deployed, tmp_path):
    config = tmp_path / "wrong.toml"
    config.write_text('[kinds."a.one"]\nadapter = "nobody:nothing"\n')
    answer = await deployed.cli("worker", "--config", str(config), code=7)
    assert 'kinds."a.one".adapter: cannot load nobody:nothing' in answer.err.splitlines()[-1]
    assert answer.out == ""


KEYED = """
[kinds."{name}"]
adapter = "http"
options.base_url = "http://127.0.0.1:9"
options.headers = {{ Authorization = "Bearer secret:{secret}" }}
options.request = {{ method = "POST", url = "/notes" }}
options.proof = {{ external_id = "id", require = ["id"] }}
policy = {{ {policy} }}
"""


async def test_a_worker_starts_only_with_every_secret_of_the_kinds_that_it_does(deployed, tmp_path):
    config = tmp_path / "keyed.toml"
    inline = KEYED.format(name="a.inline", secret="SHOP", policy="")
    queued = KEYED.format(name="a.queued", secret="BANK", policy='queue = "own"')
    config.write_text(f'task_queue = "keyed"{inline}{queued}')
    start = ("worker", "--config", str(config))

    async def reason(*options, **environment):
        answer = await deployed.cli(*start, *options, code=MissingSecret.exit_code, **environment)
        assert answer.out == ""
        return answer.err.splitlines()[-1]

    told = await reason()
    assert "are missing: BANK, SHOP; set ASCERTAIN_SECRET_BANK, ASCERTAIN_SECRET_SHOP, or" in told
    assert "the folder that ASCERTAIN_SECRETS names" in told
    assert "are missing: SHOP;" in await reason("--queue", "other")
    only = ("--no-orchestrate", "--queue", "own")
    assert "are missing: BANK;" in await reason(*only, ASCERTAIN_SECRET_SHOP="s")
    worker = await deployed.cli.start(*start, *only, ASCERTAIN_SECRET_BANK="b")
    assert b"ready:" in await worker.stdout.readline()
    worker.terminate()
    await worker.communicate()
    assert worker.returncode == 0


async def test_a_worker_drains_and_ends_with_0_when_it_is_told_to(deployed):
    worker = await deployed.cli.start("worker", "--json", "--no-orchestrate", "--queue", "own")
    ready = await worker.stdout.readline()
    assert b"and queues own" in ready
    worker.terminate()
    out, err = await worker.communicate()
    assert (worker.returncode, out) == (0, b"")
    assert b"draining" in err
