"""Functions in processes of their own: what they do wrong takes nobody along."""

from __future__ import annotations

import asyncio
import os
import signal
from typing import TYPE_CHECKING, Any

import pytest

from ascertain.adapters.compute import create
from ascertain.contracts import finding, outcome
from ascertain.errors import InvalidSettings
from tests.adapters.calls import WITHIN, GivenPermit, GivenSecrets, call, effect
from tests.adapters.test_command_adapter import alive, pids_in
from tests.waiting import wait_until

if TYPE_CHECKING:
    from pathlib import Path

    from ascertain.adapters.compute import ComputeAdapter

KIND = "price.quote"


def computing(name: str, **options: Any) -> ComputeAdapter:
    return create(
        KIND,
        {"function": f"tests.adapters.formula:{name}", "timeout": 30, **options},
        GivenSecrets(),
    )


async def perform(adapter: ComputeAdapter, **content: Any) -> outcome.Outcome:
    what = effect(KIND, content)
    try:
        return await adapter.perform(call(what, adapter.prepare(what)), GivenPermit())
    finally:
        await adapter.aclose()


async def test_a_function_is_computed_in_another_process_and_its_result_is_the_receipt():
    came_to = await perform(computing("double"), number=21)
    assert isinstance(came_to, outcome.Settled)
    result = came_to.receipt.body["result"]
    assert result["doubled"] == 42
    assert result["pid"] != os.getpid()
    assert came_to.receipt.digest is not None


@pytest.mark.parametrize(
    ("name", "content", "kind", "error_class"),
    [
        ("fails", {}, outcome.NotDone, "raised"),
        ("dies", {}, outcome.NotDone, "process_died"),
        ("refuses", {}, outcome.Refused, "invalid_input"),
        ("large", {"number": 5000}, outcome.Refused, "too_large"),
        ("no_json", {}, outcome.NotDone, "raised"),
    ],
)
async def test_what_becomes_of_a_function_that_does_not_give_a_value(
    name: str, content: dict[str, Any], kind: type, error_class: str
):
    came_to = await perform(computing(name), **content)
    assert type(came_to) is kind
    assert came_to.error_class == error_class


async def test_processes_are_kept_warm_and_one_that_died_is_replaced():
    adapter, what = computing("double", processes=1), effect(KIND, {"number": 1})

    async def pid() -> int | None:
        """None: the attempt met the dead one, so it came to nothing and may be made again."""
        came_to = await adapter.perform(call(what, adapter.prepare(what)), GivenPermit())
        if isinstance(came_to, outcome.NotDone):
            return None
        assert isinstance(came_to, outcome.Settled)
        return came_to.receipt.body["result"]["pid"]

    first = await pid()
    assert first is not None
    assert await pid() == first
    os.kill(first, signal.SIGKILL)
    await wait_until(lambda: not alive(first))
    assert await wait_until(pid) != first
    await adapter.aclose()


async def test_a_function_that_hangs_is_ended_with_its_process(tmp_path: Path):
    adapter, mark = computing("hangs"), tmp_path / "pid"
    attempt = asyncio.create_task(perform(adapter, mark=str(mark)))
    (pid,) = await pids_in(mark)
    assert alive(pid)
    attempt.cancel()
    with pytest.raises(asyncio.CancelledError):
        await attempt
    await wait_until(lambda: not alive(pid))
    late = await perform(computing("hangs", timeout=1), mark=str(mark))
    assert isinstance(late, outcome.NotDone)
    assert late.error_class == "too_long"


async def test_a_function_that_blocks_does_not_block_the_worker():
    ticks = 0
    attempt = asyncio.create_task(perform(computing("blocks"), number=3_000_000))
    while not attempt.done():
        ticks += 1
        await asyncio.sleep(0)
    assert isinstance(await attempt, outcome.Settled)
    assert ticks > 10


async def test_what_it_declares():
    adapter = computing("double")
    assert adapter.semantics.pure
    assert adapter.semantics.harmless
    found = await adapter.lookup(call(effect(KIND, {}), b"{}"), within=WITHIN)
    assert isinstance(found, finding.Unknowable)


@pytest.mark.parametrize("function", ["os", "no.such.module:f", "tests.adapters.formula:nothing"])
def test_a_function_that_is_not_there_is_refused_when_the_deployment_is_read(function: str):
    with pytest.raises(InvalidSettings):
        create(KIND, {"function": function}, GivenSecrets())
