from __future__ import annotations

import sys

import pytest

from ascertain.errors import SetupError
from ascertain.testing.proxy import FaultProxy
from starter.demo.seat import Program, Seat


async def test_a_worker_that_does_not_start_is_one_sentence_with_its_log(temporal_client, tmp_path):
    words = "import sys; sys.exit('it cannot work here')"
    program = Program((sys.executable, "-c", words), {}, "nobody-polls")
    async with FaultProxy("127.0.0.1", 1) as proxy:
        seat = Seat("a", proxy, program, tmp_path, temporal_client)
        with pytest.raises(SetupError) as failed:
            await seat.fill()
    assert str(failed.value).startswith("worker a ended at once (1); its log is ")
    assert str(seat.log) in str(failed.value)
    assert "it cannot work here" in str(failed.value)
    assert "it cannot work here" in seat.log.read_text()
