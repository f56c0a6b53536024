"""Texts from an OpenAI-compatible API with books of its own: kept by name, and paid for once."""

from __future__ import annotations

import json
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from ascertain.adapters.generate import create
from ascertain.contracts import finding, outcome
from ascertain.errors import InvalidSettings, InvalidTask, LookupDown, PermitLost
from ascertain.testing.fault import DropReply
from ascertain.testing.proxy import FaultProxy
from starter.process import free_port
from tests.adapters.calls import KEY, WITHIN, GivenPermit, GivenSecrets, call, effect
from tests.adapters.model_api import USAGE, ModelApi, model_api
from tests.adapters.object_store import IDS, object_store

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from ascertain.adapters.generate import GenerateAdapter

KIND = "text.generate"
WHAT = effect(KIND, {"prompt": "a poem about Ännchen"})
CHAT = {"model": "m-1", "messages": [{"role": "user", "content": "{input.prompt}"}]}


@asynccontextmanager
async def generating(
    url: str, place: Path, *, secrets: dict[str, str] | None = None, **options: Any
) -> AsyncIterator[GenerateAdapter]:
    given = {
        "base_url": url,
        "api_key": "secret:KEY",
        "request": {"model": "m-1", "input": "{input.prompt}"},
        "publish": {"url": f"file://{place}/kept"},
        "timeout": 5,
        **options,
    }
    adapter = create(KIND, given, GivenSecrets(secrets or {"KEY": KEY}))
    try:
        yield adapter
    finally:
        await adapter.aclose()


@pytest.fixture
async def api() -> AsyncIterator[ModelApi]:
    async with model_api() as api:
        yield api


async def perform(adapter: GenerateAdapter) -> outcome.Outcome:
    return await adapter.perform(call(WHAT, adapter.prepare(WHAT)), GivenPermit())


async def lookup(adapter: GenerateAdapter, job_id: str | None = None) -> finding.Finding:
    return await adapter.lookup(call(WHAT, adapter.prepare(WHAT), job_id=job_id), within=WITHIN)


def kept(place: Path) -> list[str]:
    return [path.name for path in (place / "kept").iterdir()]


async def test_background_work_is_accepted_asked_for_and_kept_when_it_has_ended(
    api: ModelApi, tmp_path: Path
):
    async with generating(api.url, tmp_path) as adapter:
        came_to = await perform(adapter)
        assert isinstance(came_to, outcome.Accepted)
        assert came_to.job_id == "resp_1"
        assert isinstance(await lookup(adapter, "resp_1"), finding.Pending)
        assert kept(tmp_path) == []
        found = await lookup(adapter, "resp_1")
        again = await lookup(adapter)
    assert isinstance(found, finding.Found)
    assert found == again
    assert found.receipt.external_id == "resp_1"
    assert found.receipt.body["usage"] == USAGE
    assert kept(tmp_path) == [f"{WHAT.effect_id}.json"]
    answer = json.loads((tmp_path / "kept" / f"{WHAT.effect_id}.json").read_text())
    assert answer["output"][0]["content"][0]["text"] == "a poem"
    (billed,) = api.billed
    assert billed["input"] == "a poem about Ännchen"
    assert billed["metadata"] == {"effect_id": WHAT.effect_id}
    assert (billed["background"], billed["store"]) == (True, True)
    assert api.keys == [f"Bearer {KEY}"]


async def test_a_job_that_is_not_known_yet_is_not_gone(api: ModelApi, tmp_path: Path):
    api.unknown_first = 1
    async with generating(api.url, tmp_path) as adapter:
        await perform(adapter)
        assert isinstance(await lookup(adapter, "resp_1"), finding.Absent)
        assert isinstance(await lookup(adapter, "resp_1"), finding.Pending)


@pytest.mark.parametrize(
    ("ends", "kind"),
    [
        ("completed", finding.Found),
        ("incomplete", finding.Found),
        ("failed", finding.Refused),
        ("cancelled", finding.Refused),
        ("a_new_word", finding.Unknowable),
    ],
)
async def test_how_a_job_can_end(api: ModelApi, tmp_path: Path, ends: str, kind: type):
    api.polls, api.ends = 0, ends
    async with generating(api.url, tmp_path) as adapter:
        await perform(adapter)
        assert type(await lookup(adapter, "resp_1")) is kind


async def test_a_lost_answer_leaves_nothing_to_ask_for(api: ModelApi, tmp_path: Path):
    async with (
        FaultProxy("127.0.0.1", api.port) as proxy,
        generating(f"{proxy.url}/v1", tmp_path) as adapter,
    ):
        proxy.inject(DropReply("reset"), times=1)
        assert isinstance(await perform(adapter), outcome.Unknown)
        assert isinstance(await lookup(adapter), finding.Unknowable)
    assert len(api.billed) == 1


async def test_an_answer_longer_than_is_read_is_told_and_kept_once_more_is_read(
    api: ModelApi, tmp_path: Path
):
    api.polls = 0
    short = {"max_body_bytes": 100}
    async with generating(api.url, tmp_path) as adapter:
        await perform(adapter)
    async with generating(api.url, tmp_path, wire=short) as adapter:
        found = await lookup(adapter, "resp_1")
        assert isinstance(found, finding.Unknowable)
        assert "raise wire.max_body_bytes" in found.detail
    async with generating(api.url, tmp_path) as adapter:
        assert isinstance(await lookup(adapter, "resp_1"), finding.Found)
    async with generating(api.url, tmp_path, wire=short) as adapter:
        found = await lookup(adapter)
        assert isinstance(found, finding.Found)
        assert found.receipt.truncated


@pytest.mark.parametrize("marked", [False, True], ids=["folder", "store"])
async def test_an_answer_that_is_kept_for_another_effect_is_not_ours(
    api: ModelApi, tmp_path: Path, marked: bool
):
    other = effect(KIND, {"prompt": "a poem about Berta"}, task="other")
    async with AsyncExitStack() as stack:
        publish = {"url": f"file://{tmp_path}"}
        secrets = {"KEY": KEY, **IDS}
        if marked:
            publish = (await stack.enter_async_context(object_store())).options()
        given = {"publish": {**publish, "key": "one.json"}, "api": "chat", "request": CHAT}
        adapter = await stack.enter_async_context(
            generating(api.url, tmp_path, secrets=secrets, **given)
        )
        first = await adapter.perform(call(other, adapter.prepare(other)), GivenPermit())
        second, found = await perform(adapter), await lookup(adapter)
    assert isinstance(first, outcome.Settled)
    assert isinstance(second, outcome.Unknown)
    assert second.error_class == "not_kept"
    assert type(found) is (finding.Differs if marked else finding.Unknowable)


async def test_a_chat_is_kept_at_once_and_found_by_its_name(api: ModelApi, tmp_path: Path):
    async with generating(api.url, tmp_path, api="chat", request=CHAT) as adapter:
        came_to = await perform(adapter)
        found = await lookup(adapter)
    assert isinstance(came_to, outcome.Settled)
    assert isinstance(found, finding.Found)
    assert came_to.receipt == found.receipt
    assert came_to.receipt.body["usage"] == USAGE
    assert came_to.receipt.happened_at is not None
    assert api.billed[0]["messages"][0]["content"] == "a poem about Ännchen"
    assert "background" not in api.billed[0]


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, outcome.Refused),
        (401, outcome.NotDone),
        (429, outcome.NotDone),
        (500, outcome.Unknown),
        (503, outcome.Unknown),
    ],
)
async def test_what_an_answer_to_the_request_means(
    api: ModelApi, tmp_path: Path, status: int, kind: type
):
    api.status = status
    async with generating(api.url, tmp_path) as adapter:
        assert type(await perform(adapter)) is kind
    assert api.billed == []


async def test_what_never_left_us_and_what_cannot_be_asked(api: ModelApi, tmp_path: Path):
    async with generating(f"http://127.0.0.1:{free_port()}/v1", tmp_path) as adapter:
        assert isinstance(await perform(adapter), outcome.NotDone)
        with pytest.raises(LookupDown):
            await lookup(adapter, "resp_1")
    async with generating(api.url, tmp_path) as adapter:
        with pytest.raises(PermitLost):
            await adapter.perform(call(WHAT, adapter.prepare(WHAT)), GivenPermit(lost=True))
    assert api.billed == []


async def test_a_duplicate_is_harmless_only_if_the_deployment_says_so(tmp_path: Path):
    for harmless in (False, True):
        async with generating("http://h/v1", tmp_path, harmless=harmless) as adapter:
            assert adapter.semantics.harmless is harmless


async def test_a_missing_value_makes_no_request(tmp_path: Path):
    async with generating("http://h/v1", tmp_path) as adapter:
        with pytest.raises(InvalidTask, match=r"input\.prompt"):
            adapter.prepare(effect(KIND, {}))


@pytest.mark.parametrize(
    "changes",
    [{"api_key": "sk-1"}, {"request": {"x": "{job_id}"}}, {"request": "text"}, {"api": "images"}],
)
async def test_a_deployment_that_cannot_work_is_refused_when_it_is_read(
    tmp_path: Path, changes: dict[str, Any]
):
    with pytest.raises(InvalidSettings):
        async with generating("http://h/v1", tmp_path, **changes):
            raise AssertionError(changes)
