"""Whatever comes to a door: it is let in whole, or refused in one sentence and stored nowhere."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from ascertain import door, keys, outbox
from ascertain.cli import program
from ascertain.client import Client
from ascertain.contracts.task import MAX_STEPS
from ascertain.door import admit
from ascertain.errors import InputError
from starter.consumer import task_of
from tests.edges.tasks import broken_tasks, json_objects

EVERY = settings(
    max_examples=1000,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "door.md").read_text()


def loose_json(task) -> bytes:
    """As careless senders write JSON: with NaN, and with half a character."""
    try:
        return json.dumps(task, default=str).encode()
    except RecursionError:
        return b'{"task_id": ' + b"[" * 5000 + b"]" * 5000 + b"}"


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


@EVERY
@given(broken_tasks(), st.text(max_size=30))
async def test_the_client(task, message_id):
    started = []

    class Recording(Client):
        async def start(self, task, *_, **__):
            started.append(task)
            raise StopAsyncIteration

    try:
        await Recording(None).submit(task, message_id=message_id)
    except InputError as error:
        refused(error)
        assert started == []
    except StopAsyncIteration:
        assert len(started) == 1


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


@EVERY
@given(st.one_of(st.binary(max_size=200), broken_tasks().map(loose_json)))
def test_a_message(body):
    try:
        admit(task_of(body))
    except InputError as error:
        refused(error)


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
