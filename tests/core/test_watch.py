"""A loop that is held up is noticed by its thread, once, with what holds it."""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from datetime import timedelta

from ascertain.watch import Watch

LIMIT = timedelta(seconds=1)
AT_MOST_S = 30


async def hold_up(told):
    end = time.monotonic() + AT_MOST_S
    while not told and time.monotonic() < end:
        time.sleep(0.01)  # noqa: ASYNC251 - that is the fault


async def test_a_loop_that_is_held_up_is_told_with_the_task_and_the_line():
    told = []
    with Watch(LIMIT, told.append):
        await asyncio.create_task(hold_up(told), name="payment ef1-1")
    (blocked,) = told
    assert blocked.task == "payment ef1-1"
    assert blocked.for_s >= LIMIT.total_seconds()
    assert __file__ in blocked.where
    assert blocked.where.endswith("in hold_up")


async def test_a_loop_that_waits_comes_round_and_is_not_told():
    told = []
    with Watch(LIMIT, told.append):
        await asyncio.sleep(2.5 * LIMIT.total_seconds())
    assert told == []


SUSPENDED = """
import asyncio, sys
from datetime import timedelta
from ascertain.watch import Watch

async def main():
    with Watch(timedelta(seconds=1), lambda blocked: print(blocked)):
        print("watching", flush=True)
        await asyncio.to_thread(sys.stdin.read)

asyncio.run(main())
"""


async def test_a_process_that_was_suspended_is_not_told_to_have_held_up_its_loop():
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", SUSPENDED),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert await process.stdout.readline() == b"watching\n"
    process.send_signal(signal.SIGSTOP)
    await asyncio.sleep(2.5 * LIMIT.total_seconds())
    process.send_signal(signal.SIGCONT)
    said, _ = await process.communicate(b"")
    assert said == b""


async def test_a_loop_that_computes_is_told_too():
    told = []
    with Watch(LIMIT, told.append):
        end = time.monotonic() + AT_MOST_S
        while not told and time.monotonic() < end:
            pass
    assert len(told) == 1
