"""Whatever comes to a door: it is let in whole, or refused in one sentence and stored nowhere."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from functools import cache
from itertools import count, islice
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from typer.main import get_command

from ascertain import door, inbox, keys, outbox
from ascertain.cli import program
from ascertain.client import Client
from ascertain.contracts.semantics import Policy, Semantics
from ascertain.contracts.task import MAX_STEPS
from ascertain.door import admit
from ascertain.errors import InputError
from ascertain.ledger.model import ModelLedger
from ascertain.ports import EffectFilter, Kind
from starter.consumer import Consumer
from starter.importer import Importer
from starter.relay import Relay
from tests.edges.tasks import broken_task, broken_tasks, json_objects, loose_json
from tests.edges.test_consumer import Delivered

# A thousand inputs a door, and a busy machine.
pytestmark = pytest.mark.timeout(900)

EVERY = settings(
    max_examples=1000,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "door.md").read_text()


def refused(error: InputError) -> None:
    text = str(error)
    assert "\n" not in text
    assert 0 < len(text) < 2000


@EVERY
@given(st.one_of(broken_tasks(), json_objects()))
def test_the_door_itself(task):
    try:
        admitted = admit(task)
    except InputError as error:
        refused(error)
    else:
        # What was let in can be named, sent and compared.
        door.task_fingerprint(admitted)
        again = json.loads(json.dumps(admitted.model_dump(mode="json", exclude_defaults=True)))
        assert door.task_fingerprint(admit(again)) == door.task_fingerprint(admitted)


class Recording(Client):
    """A client whose every start is noted and succeeds."""

    def __init__(self) -> None:
        super().__init__(SimpleNamespace(namespace="default", start_workflow=self.note))
        self.started = []

    async def note(self, _, content, **__):
        self.started.append(content)
        return SimpleNamespace(result_run_id="run")


@EVERY
@given(broken_tasks(), st.text(max_size=30))
async def test_the_client(task, message_id):
    client = Recording()
    try:
        await client.submit(task, message_id=message_id)
    except InputError as error:
        refused(error)
        assert client.started == []
    else:
        assert len(client.started) == 1


@EVERY
@given(broken_tasks())
async def test_the_outbox(service, task):
    transaction = service.connection.transaction()
    await transaction.start()
    try:
        await outbox.put(service.connection, task)
    except InputError as error:
        refused(error)
        assert await service.entries() == []
    else:
        (entry,) = await service.entries()
        assert admit(json.loads(entry["content"])) == admit(task)
    finally:
        await transaction.rollback()


def is_json(text: str) -> bool:
    try:
        json.loads(text, parse_constant=int)
    except (ValueError, RecursionError):
        return False
    return True


async def test_rows_that_others_put_into_the_outbox(service, queue):
    texts = (loose_json(broken_task(seed)).decode() for seed in count())
    # What is no JSON is refused by the column.
    rows = list(islice((text for text in texts if is_json(text)), 1000))
    await service.connection.executemany(
        "insert into ascertain.outbox_entries (task_id, content) values ($1, $2)",
        [(f"t-{seed}", row) for seed, row in enumerate(rows)],
    )
    relay = Relay(queue, Recording())
    await relay.drain()
    assert len(relay.client.started) + relay.tally.set_aside == len(rows)
    assert relay.tally.set_aside > len(rows) / 2
    for entry in await queue.aside(len(rows)):
        refused(InputError(entry.reason))


@EVERY
@given(st.text(max_size=300), json_objects())
async def test_a_message_that_a_consumer_of_ours_remembers(service, message_id, content):
    transaction = service.connection.transaction()
    await transaction.start()
    try:
        assert await inbox.once(service.connection, message_id, content=content)
    except InputError as error:
        refused(error)
        stored = await service.connection.fetch("select * from ascertain.inbox_messages")
        assert stored == []
    finally:
        await transaction.rollback()


@EVERY
@given(
    st.one_of(st.binary(max_size=200), broken_tasks().map(loose_json)),
    st.one_of(st.none(), st.text(max_size=30), st.just("m-1")),
)
async def test_a_message(body, message_id):
    client, reasons = Recording(), []

    async def refuse(_, reason):
        reasons.append(reason)

    message = Delivered(body, message_id)
    await Consumer(client, refuse).handle(message)
    assert message.said == ["ack"]
    assert len(client.started) + len(reasons) == 1
    for reason in reasons:
        refused(InputError(reason))


class Preparing:
    """An adapter that can do nothing but prepare, and not everything."""

    semantics = Semantics()

    def prepare(self, effect):
        if "a" in effect.input:
            raise KeyError(effect.input["a"])
        return b"prepared"


@EVERY
@given(
    st.one_of(broken_tasks(), json_objects()),
    st.sampled_from(["PROCESSING", "PROCESSING", "PENDING", "DONE", None, 1]),
    st.one_of(st.none(), st.lists(st.sampled_from(["a0", "no step", ""]), max_size=3)),
)
async def test_a_row_to_import(task, state, begun):
    steps = task.get("steps")
    named = (
        [step.get("kind") for step in steps if isinstance(step, dict)]
        if isinstance(steps, list)
        else []
    )
    kinds = {
        name: Kind(name, Semantics(), Policy(), Preparing())
        for name in named
        if isinstance(name, str)
    }
    client, ledger = Recording(), ModelLedger(lambda: datetime.now(UTC))
    try:
        row, _ = await Importer(client, ledger, kinds).take(
            {"task": task, "state": state, "begun": begun}
        )
    except InputError as error:
        refused(error)
        assert client.started == []
        assert await ledger.effects(EffectFilter()) == []
    else:
        assert len(client.started) == 1
        assert (row.state == "PROCESSING") or await ledger.effects(EffectFilter()) == []


def test_a_stream_of_lines(tmp_path, capfd, monkeypatch):
    monkeypatch.setenv("TEMPORAL_ADDRESS", "127.0.0.1:1")
    monkeypatch.setenv("ASCERTAIN_CONFIG", str(_config(tmp_path)))
    file = tmp_path / "tasks.jsonl"
    file.write_bytes(b"\n".join(loose_json(broken_task(seed)) for seed in range(1000)))
    # Nobody serves their kinds, so the server is never asked for.
    assert program.run(["submit", str(file), "--bulk", "fuzzed"]) == 2
    out, err = capfd.readouterr()
    told = [
        line
        for line in err.splitlines()
        if re.match(r"\S+/tasks\.jsonl:\d+(:\d+)?: refused: \S", line)
    ]
    assert len(told) == 1000
    assert "1000 lines are refused, so nothing was begun" in err
    assert "Traceback" not in err
    assert out == ""


build = cache(lambda built=program.build: get_command(built()))


@EVERY
@given(
    st.one_of(
        st.binary(max_size=120),
        st.text(max_size=120).map(lambda text: text.encode("utf-8", "surrogatepass")),
        broken_tasks().map(loose_json),
    )
)
def test_the_command_line(tmp_path_factory, capfd, monkeypatch, body):
    folder = tmp_path_factory.getbasetemp()
    monkeypatch.setenv("TEMPORAL_ADDRESS", "127.0.0.1:1")
    monkeypatch.setenv("ASCERTAIN_CONFIG", str(_config(folder)))
    monkeypatch.setattr(program, "build", build)  # made once, for it takes longer than all the rest
    file = folder / "task.json"
    file.write_bytes(body)
    # No deployment serves this kind, so nothing gets past the door. What looks like a stream, one task a
    # line, is checked line by line behind a connection, and there is no server.
    code = program.run(["submit", str(file)])
    out, err = capfd.readouterr()
    assert code in {2, 6}, (code, err)
    assert "Traceback" not in err
    assert out == ""


def _config(folder: Path) -> Path:
    path = folder / "closed.toml"
    path.write_text('[kinds."no.such_kind_ever"]\nadapter = "http"\n')
    return path


@pytest.mark.parametrize(
    ("limit", "words"),
    [
        (door.MAX_INPUT_BYTES // 1024, "KiB an input"),
        (door.MAX_TASK_BYTES // 1024, "KiB a task"),
        (door.MAX_DEPTH, "levels"),
        (MAX_STEPS, "steps"),
    ],
)
def test_the_page_about_the_door_names_the_limits_that_hold(limit, words):
    assert re.search(rf"\b{limit} {words}", PAGE)


SAME = re.compile(
    r"^\| `(?P<one>[^`]+)` \| `(?P<other>[^`]+)` \| (?P<verdict>same|conflict) \|", re.MULTILINE
)
REFUSED = re.compile(r"^\| `(?P<one>[^`]+)` \| refused \|", re.MULTILINE)


@pytest.mark.parametrize("row", [found.groupdict() for found in SAME.finditer(PAGE)], ids=str)
def test_the_page_about_the_door_says_what_is_the_same(row):
    one, other = (keys.fingerprint("k", {"v": json.loads(row[name])}) for name in ("one", "other"))
    assert (one == other) is (row["verdict"] == "same")


@pytest.mark.parametrize("value", [found["one"] for found in REFUSED.finditer(PAGE)])
def test_the_page_about_the_door_says_what_is_refused(value):
    with pytest.raises(InputError):
        keys.fingerprint("k", {"v": json.loads(value)})


def test_the_page_has_its_tables():
    assert len(SAME.findall(PAGE)) >= 8
    assert len(REFUSED.findall(PAGE)) >= 4
