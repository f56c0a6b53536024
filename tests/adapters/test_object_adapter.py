"""Objects in an S3 that nobody here wrote, and in a local folder: one of each name, and never another's."""

from __future__ import annotations

import asyncio
import base64
import hashlib
from typing import TYPE_CHECKING, Any

import pytest

from ascertain.adapters.object import create
from ascertain.contracts import finding, outcome
from ascertain.contracts.semantics import LookupBy
from ascertain.errors import InvalidSettings, InvalidTask, LookupDown, PermitLost
from ascertain.testing.fault import DropReply
from ascertain.testing.proxy import FaultProxy
from starter.process import free_port
from tests.adapters.calls import WITHIN, GivenPermit, GivenSecrets, call, effect
from tests.adapters.object_store import IDS, ObjectStore, object_store

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from ascertain.adapters.object import ObjectAdapter
    from ascertain.contracts.effect import Effect

KIND = "report.publish"
TEXT = {"text": "Grüße\n"}
DIGEST = hashlib.sha256(TEXT["text"].encode()).hexdigest()
KEY = "reports/{effect_id}"


@pytest.fixture(scope="module")
async def s3() -> AsyncIterator[ObjectStore]:
    async with object_store() as store:
        yield store


@pytest.fixture(params=["s3", "folder"])
def options(request: pytest.FixtureRequest, tmp_path: Path, s3: ObjectStore) -> dict[str, Any]:
    """How to reach an empty place."""
    if request.param == "folder":
        return {"url": f"file://{tmp_path}/objects", "key": KEY}
    return {**s3.options(prefix=f"/{tmp_path.name}"), "key": KEY}


def opened(options: dict[str, Any]) -> ObjectAdapter:
    return create(KIND, options, GivenSecrets(IDS))


def made(task: str = "task-1", **content: Any) -> Effect:
    return effect(KIND, content or dict(TEXT), task=task)


async def perform(adapter: ObjectAdapter, what: Effect) -> outcome.Outcome:
    return await adapter.perform(call(what, adapter.prepare(what)), GivenPermit())


async def lookup(adapter: ObjectAdapter, what: Effect) -> finding.Finding:
    return await adapter.lookup(call(what, adapter.prepare(what)), within=WITHIN)


async def test_an_object_is_put_once_and_found_with_its_digest(options: dict[str, Any]):
    adapter, what = opened(options), made()
    assert isinstance(await lookup(adapter, what), finding.Absent)
    came_to = await perform(adapter, what)
    found = await lookup(adapter, what)
    assert isinstance(came_to, outcome.Settled)
    assert isinstance(found, finding.Found)
    for receipt in (came_to.receipt, found.receipt):
        assert receipt.external_id == f"reports/{what.effect_id}"
        assert receipt.digest == DIGEST
    assert found.receipt.happened_at is not None


async def test_what_is_there_already_is_neither_a_failure_nor_a_proof(options: dict[str, Any]):
    adapter, what = opened(options), made()
    await perform(adapter, what)
    again = await perform(adapter, what)
    assert isinstance(again, outcome.Unknown)
    assert again.error_class == "exists"
    assert isinstance(await lookup(adapter, what), finding.Found)


@pytest.mark.parametrize("content", ["another", "Grüsse"], ids=["size", "same size"])
async def test_another_object_of_that_name_is_never_replaced_and_both_digests_are_told(
    options: dict[str, Any], content: str
):
    adapter = opened({**options, "key": "reports/{input.content_type}"})
    mine, other = made(**TEXT, content_type="one"), made(text=content, content_type="one")
    assert isinstance(await perform(adapter, other), outcome.Settled)
    assert isinstance(await perform(adapter, mine), outcome.Unknown)
    differs = await lookup(adapter, mine)
    assert isinstance(differs, finding.Differs)
    assert differs.expected["sha256"] == DIGEST
    assert differs.found["size"] == len(content.encode())


async def test_of_many_at_once_one_is_put(options: dict[str, Any]):
    adapter, what = opened(options), made()
    came_to = await asyncio.gather(*(perform(adapter, what) for _ in range(8)))
    assert sum(isinstance(one, outcome.Settled) for one in came_to) == 1
    assert all(one.type in {"settled", "unknown"} for one in came_to)


async def test_the_same_bytes_under_another_effects_mark_are_not_ours(s3: ObjectStore):
    adapter = opened({**s3.options(prefix="/shared"), "key": "one"})
    await perform(adapter, made("task-1"))
    differs = await lookup(adapter, made("task-2"))
    assert isinstance(differs, finding.Differs)
    assert differs.found["effect_id"] == made("task-1").effect_id


async def test_where_no_mark_is_kept_an_object_whose_name_two_effects_share_proves_neither(
    tmp_path: Path,
):
    adapter = opened({"url": f"file://{tmp_path}", "key": "one"})
    await perform(adapter, made("task-1"))
    for task in ("task-1", "task-2"):
        assert isinstance(await lookup(adapter, made(task)), finding.Unknowable)


@pytest.mark.parametrize(
    ("content", "kept", "content_type"),
    [
        (TEXT, b"Gr\xc3\xbc\xc3\x9fe\n", "text/plain; charset=utf-8"),
        ({"json": {"b": 1.0, "a": [None]}}, b'{"a":[null],"b":1}', "application/json"),
        (
            {"base64": base64.b64encode(b"\x00\xff").decode(), "content_type": "image/x"},
            b"\x00\xff",
            "image/x",
        ),
    ],
)
async def test_the_bytes_and_their_type_arrive(
    s3: ObjectStore, content: dict[str, Any], kept: bytes, content_type: str
):
    what = made(f"task-{len(kept)}", **content)
    await perform(opened({**s3.options(), "key": KEY}), what)
    there = await s3.read(f"reports/{what.effect_id}")
    assert there.content == kept
    assert there.headers["content-type"] == content_type
    assert there.headers["x-amz-meta-ascertain-effect-id"] == what.effect_id


async def test_a_lost_answer_is_doubt_and_is_sent_once(s3: ObjectStore):
    async with FaultProxy("127.0.0.1", s3.port) as proxy:
        rule = proxy.inject(DropReply("reset"), match=rb"PUT /")
        adapter, what = opened({**s3.options(proxy.port), "key": KEY}), made("lost")
        came_to = await perform(adapter, what)
        assert isinstance(came_to, outcome.Unknown)
        assert rule.fired == 1
        assert isinstance(await lookup(adapter, what), finding.Found)


async def test_a_store_that_cannot_be_reached_says_nothing_of_the_object():
    nowhere = ObjectStore(free_port())
    adapter, what = opened({**nowhere.options(), "key": KEY}), made()
    assert isinstance(await perform(adapter, what), outcome.Unknown)
    with pytest.raises(LookupDown):
        await lookup(adapter, what)


async def test_a_bucket_that_is_not_there_is_no_proof_of_absence(s3: ObjectStore):
    adapter, what = opened({**s3.options(), "url": "s3://elsewhere", "key": KEY}), made()
    assert isinstance(await perform(adapter, what), outcome.NotDone)
    with pytest.raises(LookupDown, match="does not exist"):
        await lookup(adapter, what)


async def test_a_lost_permit_and_a_missing_secret_put_nothing(s3: ObjectStore):
    options = {**s3.options(), "key": KEY}
    adapter, what = opened(options), made("unsent")
    with pytest.raises(PermitLost):
        await adapter.perform(call(what, adapter.prepare(what)), GivenPermit(lost=True))
    without = create(KIND, options, GivenSecrets({}))
    assert isinstance(await perform(without, what), outcome.NotDone)
    with pytest.raises(LookupDown, match="S3_ID"):
        await lookup(without, what)
    assert f"reports/{what.effect_id}" not in await s3.names()


def test_what_these_stores_promise(tmp_path: Path):
    semantics = opened({"url": f"file://{tmp_path}", "key": KEY}).semantics
    assert semantics.lookup is LookupBy.KEY
    assert semantics.lag.total_seconds() == 0


@pytest.mark.parametrize(
    "content",
    [
        {"text": "x", "json": 1},
        {"content_type": "a/b"},
        {"base64": "?"},
        {"text": "\ud800"},
        {"text": "x" * 300_000},
        {"text": "x", "content_type": "a\nb"},
        {"text": "x", "file": "/etc/passwd"},
    ],
)
def test_input_that_makes_no_object_is_refused(tmp_path: Path, content: dict[str, Any]):
    with pytest.raises(InvalidTask):
        opened({"url": f"file://{tmp_path}", "key": KEY}).prepare(made(**content))


def test_a_task_cannot_leave_its_place(tmp_path: Path):
    adapter = opened({"url": f"file://{tmp_path}", "key": "in/{input.content_type}"})
    frozen = adapter.prepare(made(text="x", content_type="../../out/x"))
    assert b'"in/..%2F..%2Fout%2Fx"' in frozen
    with pytest.raises(InvalidTask):
        adapter.prepare(made(text="x", content_type=".."))


@pytest.mark.parametrize(
    "changes",
    [
        {"url": "ftp://x/y"},
        {"url": "s3://b", "config": {"endpoin": "x"}},
        {"url": "s3://b", "config": {"allow_http": "true"}},
        {"key": "{job_id}"},
        {"key": "{unknown}"},
    ],
)
def test_a_deployment_that_cannot_work_is_refused_when_it_is_read(
    tmp_path: Path, changes: dict[str, Any]
):
    with pytest.raises(InvalidSettings):
        opened({"url": f"file://{tmp_path}", "key": KEY, **changes})
