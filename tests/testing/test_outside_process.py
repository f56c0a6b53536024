"""The outside as its own process: steered over HTTP, killed, started again."""

from __future__ import annotations

import asyncio
import sys
import textwrap
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from ascertain.testing.control import OutsideControl
from ascertain.testing.knob import (
    Answer,
    Dedupe,
    Drop,
    JobKnobs,
    Knobs,
    LookupKnobs,
    Rule,
    SubmitKnobs,
)
from ascertain.testing.outside import Outside
from ascertain.testing.outside_process import OutsideProcess


@pytest.fixture
async def control(outside: Outside) -> AsyncIterator[OutsideControl]:
    async with OutsideControl(outside.url) as client:
        yield client


async def submit(url: str, key: str, reference: str = "inv-1") -> httpx.Response:
    async with httpx.AsyncClient(timeout=20) as http:
        return await http.post(
            f"{url}/facts", json={"reference": reference}, headers={"Idempotency-Key": key}
        )


async def test_books_survive_a_sigkill_of_the_outside(tmp_path: Path) -> None:
    async with (
        OutsideProcess(books=tmp_path / "books.jsonl") as process,
        OutsideControl(process.url) as control,
    ):
        await control.add_rules(Rule(key="k-2", submit=SubmitKnobs(reply=Drop())))
        await submit(process.url, "k-1")
        with pytest.raises(httpx.ReadError):
            await submit(process.url, "k-2")
        before = await control.books()
        await process.kill()
        await process.start()
        after = await control.books()

        assert len(after.facts_of("inv-1")) == 2
        assert after == before
        await control.set_knobs(Knobs(dedupe=Dedupe(by="key")))
        assert (await submit(process.url, "k-2")).headers["Idempotent-Replayed"] == "true"
        assert len((await control.books()).facts) == 2


async def test_work_that_was_taken_on_is_done_after_a_kill(tmp_path: Path) -> None:
    async with (
        OutsideProcess(books=tmp_path / "books.jsonl") as process,
        OutsideControl(process.url) as control,
    ):
        late = SubmitKnobs(commit=0.5, reply=Answer(status=504))
        await control.set_knobs(Knobs(submit=late))
        await submit(process.url, "k-1")
        await process.kill()
        await process.start()
        await control.wait_for("fact", key="k-1")
        await process.kill()
        await process.start()

        assert len((await control.books()).facts_with_key("k-1")) == 1


async def test_a_line_torn_by_a_kill_is_dropped_and_the_books_go_on(tmp_path: Path) -> None:
    file = tmp_path / "books.jsonl"
    async with Outside(books=file) as outside:
        await submit(outside.url, "k-1")
    file.write_bytes(file.read_bytes() + b'{"kind":"fact","id":"fact-0000')
    async with Outside(books=file) as outside:
        assert len(outside.books.facts) == 1
        await submit(outside.url, "k-2")
    async with Outside(books=file) as outside:
        assert [fact.key for fact in outside.books.facts] == ["k-1", "k-2"]


async def test_a_frozen_outside_answers_when_it_is_thawed() -> None:
    brief = httpx.Timeout(20, read=0.3)
    async with OutsideProcess() as process, httpx.AsyncClient(timeout=brief) as impatient:
        process.freeze()
        with pytest.raises(httpx.ReadTimeout):
            await impatient.post(f"{process.url}/facts", json={"reference": "inv-1"})
        process.thaw()
        async with OutsideControl(process.url) as control:
            await control.wait_for("fact", reference="inv-1")
            assert len(await control.facts_of("inv-1")) == 1


async def test_the_outside_ends_with_the_process_that_started_it() -> None:
    parent = textwrap.dedent("""
        import asyncio, os
        from ascertain.testing.outside_process import OutsideProcess
        async def main():
            process = OutsideProcess()
            await process.start()
            print(process.port, flush=True)
            os._exit(9)
        asyncio.run(main())
    """)
    starter = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        parent,
        stdout=asyncio.subprocess.PIPE,
        env={"PYTHONPATH": ":".join(sys.path)},
    )
    output, _ = await starter.communicate()
    async with asyncio.timeout(20):
        while await is_listening(int(output)):
            pass


async def is_listening(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    writer.transport.abort()
    return True


async def test_waiting_ends_at_the_nth_submit_of_a_key(
    outside: Outside, control: OutsideControl
) -> None:
    waiting = asyncio.create_task(control.wait_for("submit", 2, key="k-1"))
    await submit(outside.url, "k-1")
    await submit(outside.url, "k-2")
    with pytest.raises(TimeoutError, match="1 of 2 submit"):
        await control.wait_for("submit", 2, key="k-1", within_s=0.05)
    assert not waiting.done()

    await submit(outside.url, "k-1")
    await waiting
    assert len(outside.books.submits_of("k-1")) == 2


async def test_waiting_for_what_is_there_returns_at_once(
    outside: Outside, control: OutsideControl
) -> None:
    await submit(outside.url, "k-1")

    await control.wait_for("fact", reference="inv-1", within_s=0)
    await control.wait_for("submit", within_s=0)


async def test_knobs_and_rules_are_set_and_dropped_over_http(
    outside: Outside, control: OutsideControl
) -> None:
    await control.set_knobs(Knobs(lookup=LookupKnobs(lag_s=3600)))
    await control.add_rules(
        Rule(key="k-1", submit=SubmitKnobs(commit="never", reply=Answer(status=503)))
    )
    assert outside.rules.knobs.lookup.lag_s == 3600
    assert (await submit(outside.url, "k-1")).status_code == 503

    await control.clear_rules()
    assert (await submit(outside.url, "k-1")).status_code == 201
    await control.reset()
    assert outside.rules.knobs == Knobs()
    assert (await control.books()).submits == ()


async def test_books_that_were_cleared_stay_empty_in_the_file(tmp_path: Path) -> None:
    file = tmp_path / "books.jsonl"
    async with Outside(books=file) as outside, OutsideControl(outside.url) as control:
        await submit(outside.url, "k-1")
        await control.reset()
        await submit(outside.url, "k-2")
    async with Outside(books=file) as outside:
        assert [fact.key for fact in outside.books.facts] == ["k-2"]


async def test_a_fact_can_be_made_changed_and_removed_by_hand(
    outside: Outside, control: OutsideControl
) -> None:
    fact = await control.make_fact(reference="inv-1", content={"amount": 1999})
    await control.set_fact_status(fact.id, "reversed")
    await control.remove_fact(fact.id)

    (kept,) = await control.facts_of("inv-1")
    assert (kept.status, kept.removed, kept.amount) == ("reversed", True, 1999)
    assert outside.books.submits == []
    with pytest.raises(RuntimeError, match="no fact fact-000009"):
        await control.remove_fact("fact-000009")


async def test_a_job_that_failed_can_still_succeed_and_makes_one_fact(
    outside: Outside, control: OutsideControl
) -> None:
    await control.set_knobs(Knobs(submit=SubmitKnobs(job=JobKnobs())))
    job = (await submit(outside.url, "k-1")).json()["job_id"]
    await control.set_job(job, "failed")
    assert outside.books.facts == []

    await control.set_job(job, "succeeded")
    await control.set_job(job, "succeeded")
    assert len(outside.books.facts_with_key("k-1")) == 1
    with pytest.raises(RuntimeError, match="no job job-000009"):
        await control.set_job("job-000009", "failed")


async def test_a_misspelt_knob_is_refused(outside: Outside) -> None:
    async with httpx.AsyncClient() as http:
        reply = await http.put(f"{outside.url}/_control/knobs", json={"lookup": {"lags": 1}})

    assert reply.status_code == 400
    assert "lags" in reply.text
