"""A program that ends right after its last answer must not meet the SDK's threads inside Python."""

from __future__ import annotations

import asyncio
import ctypes
import threading
from typing import Any, cast

import pytest

from ascertain.client import Client
from tests.waiting import wait_until


@pytest.fixture
async def leave():
    """A thread that Python did not start is inside Python until this event is set."""
    entered, leave = threading.Event(), threading.Event()

    @ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)
    def inside(_: object) -> None:
        entered.set()
        leave.wait()

    system, thread = ctypes.CDLL(None), ctypes.c_ulong()
    system.pthread_create(ctypes.byref(thread), None, inside, None)
    await wait_until(entered.is_set, what="a foreign thread in Python")
    yield leave
    leave.set()
    system.pthread_join(thread, None)


async def test_a_client_is_closed_only_when_threads_of_others_have_left_python(leave):
    closing = asyncio.create_task(Client(cast("Any", None)).aclose())
    await asyncio.sleep(0)
    assert not closing.done()
    leave.set()
    await closing


async def test_a_client_is_closed_in_the_end_whatever_others_do(leave):
    async with Client(cast("Any", None)):
        pass
    assert not leave.is_set()
