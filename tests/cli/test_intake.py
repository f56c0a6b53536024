from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path

import pytest

from ascertain.cli import intake
from ascertain.errors import InvalidTask

ONE = {"task_id": "a"}
TWO = {"task_id": "b"}


async def read(text: bytes, tmp_path, **how):
    """What a file with this text holds: whether it is one document, and its lines."""
    path = tmp_path / "tasks"
    path.write_bytes(text)
    descriptor = os.open(path, os.O_RDONLY)
    try:
        found = await intake.read(descriptor, **how)
        return found.single, [entry async for entry in found.entries]
    finally:
        os.close(descriptor)


async def test_one_object_on_one_line_is_one_task(tmp_path):
    single, (entry,) = await read(b'\n{"task_id": "a"}\n\n', tmp_path)
    assert single
    assert (entry.number, entry.parse()) == (2, ONE)


async def test_an_object_over_many_lines_is_one_task(tmp_path):
    text = json.dumps({**ONE, "steps": [{"name": "x"}]}, indent=2).encode()
    single, (entry,) = await read(text, tmp_path)
    assert single
    assert entry.parse() == {**ONE, "steps": [{"name": "x"}]}


async def test_an_error_names_the_line_of_the_document_even_after_blank_lines(tmp_path):
    _, (entry,) = await read(b'\n{\n\n\n"task_id": a\n}\n', tmp_path)
    with pytest.raises(InvalidTask, match="not JSON: expecting value") as caught:
        entry.parse()
    assert entry.place(caught.value) == "standard input:5:12"


async def test_two_objects_are_a_stream_and_keep_their_line_numbers(tmp_path):
    single, entries = await read(b'{"task_id": "a"}\r\n\r\n{"task_id": "b"}', tmp_path)
    assert not single
    assert [(entry.number, entry.parse()) for entry in entries] == [(1, ONE), (3, TWO)]


async def test_a_stream_whose_first_line_is_broken_inside_stays_a_stream(tmp_path):
    single, (broken, fine) = await read(b'{"task_id": a"}\n{"task_id": "b"}\n', tmp_path)
    assert not single
    with pytest.raises(InvalidTask, match="not JSON") as caught:
        broken.parse()
    assert broken.place(caught.value) == "standard input:1:13"
    assert fine.parse() == TWO


async def test_what_is_wrong_is_placed_in_its_file_as_precisely_as_it_is_known(tmp_path):
    file = Path("night.jsonl")
    _, (_, second) = await read(b'{"task_id": "a"}\n{"task_id": b}\n', tmp_path, name=file)
    with pytest.raises(InvalidTask) as caught:
        second.parse()
    assert second.place(caught.value) == "night.jsonl:2:13"
    assert second.place(InvalidTask("no such kind")) == "night.jsonl:2"
    _, (entry,) = await read(b'\n{"task_id": "a"}', tmp_path, name=Path("night.json"))
    assert entry.place(InvalidTask("no such kind")) == "night.json"
    _, (entry,) = await read(b'\n\n{"task_id":\n\n"\xe9"}', tmp_path, name=Path("night.json"))
    with pytest.raises(InvalidTask, match="not UTF-8") as caught:
        entry.parse()
    assert entry.place(caught.value) == "night.json:5:2"


@pytest.mark.parametrize(
    "how", [{"stream": True}, {"name": Path("x.JSONL")}, {"name": Path("x.ndjson")}]
)
async def test_a_stream_of_one_line_is_known_by_its_name_or_by_saying_so(tmp_path, how):
    single, entries = await read(b'{"task_id": "a"}\n', tmp_path, **how)
    assert not single
    assert [entry.parse() for entry in entries] == [ONE]


async def test_a_byte_order_mark_is_passed_over(tmp_path):
    single, (entry,) = await read(b'\xef\xbb\xbf{"task_id": "a"}\n', tmp_path)
    assert single
    assert entry.parse() == ONE


async def test_a_line_beyond_the_limit_is_told_and_the_next_one_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr(intake, "MAX_LINE_BYTES", 100_000)
    long = b'{"task_id": "' + b"x" * 100_000 + b'"}\n'
    _, entries = await read(long * 2 + b'{"task_id": "b"}\n' + long[:-1], tmp_path, stream=True)
    assert [(entry.number, entry.text is None) for entry in entries] == [
        (1, True),
        (2, True),
        (3, False),
        (4, True),
    ]
    with pytest.raises(InvalidTask, match="longer than 100000 bytes"):
        entries[0].parse()


async def test_one_document_beyond_the_limit_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr(intake, "MAX_LINE_BYTES", 1000)
    text = json.dumps({"steps": list(range(1000))}, indent=2).encode()
    single, (entry,) = await read(text, tmp_path)
    assert single
    with pytest.raises(InvalidTask, match="longer than 1000 bytes"):
        entry.parse()


async def test_text_that_is_not_utf_8_is_told_without_showing_it(tmp_path):
    _, (entry,) = await read(b'{"task_id": "caf\xe9"}', tmp_path)
    with pytest.raises(InvalidTask, match="not UTF-8: this byte cannot be read") as caught:
        entry.parse()
    assert entry.place(caught.value) == "standard input:1:17"


async def test_an_empty_input_is_told(tmp_path):
    with pytest.raises(InvalidTask, match="the input is empty"):
        await read(b"  \n\n", tmp_path)


async def test_lines_of_a_pipe_come_as_soon_as_they_are_written():
    reading, writing = os.pipe()
    try:
        os.write(writing, b'{"task_id": "a"}\n{"task_')
        found = await intake.read(reading, stream=True)
        async with asyncio.timeout(60):
            assert (await anext(found.entries)).parse() == ONE
        os.write(writing, b'id": "b"}\n')
        async with asyncio.timeout(60):
            assert (await anext(found.entries)).parse() == TWO
    finally:
        os.close(writing)
        os.close(reading)


async def fills_up(writing: int, text: bytes) -> bool:
    """Whether a pipe of 64 KiB takes no more in the end; the loop runs meanwhile."""
    os.set_blocking(writing, False)
    for _ in range(1000):
        try:
            os.write(writing, text)
        except BlockingIOError:
            return True
        await asyncio.sleep(0)
    return False


async def test_more_of_a_pipe_is_not_read_while_nobody_asks_for_it():
    reading, writing = os.pipe()
    line = b'{"task_id": "a"}\n'
    try:
        os.write(writing, line)
        found = await intake.read(reading, stream=True)
        await anext(found.entries)
        assert await fills_up(writing, line * 60)
    finally:
        os.close(writing)
        os.close(reading)
