"""Tasks as others might send them: good ones, ones that are broken in some place, and what is none at all."""

# ruff: noqa: S311 - the seed is hypothesis's own, and nothing here is a secret
from __future__ import annotations

import copy
import json
import math
import os
from random import Random
from typing import Any

from hypothesis import strategies as st
from temporalio.api.common.v1 import Payload
from temporalio.common import RawValue

# So many at doors that ask a server each time. All: ASCERTAIN_FUZZ=1000 ./run test tests/edges tests/cli
FUZZED = int(os.environ.get("ASCERTAIN_FUZZ", "150"))
_SEEDS = st.integers(0, 2**48)
_ID = "abcXYZ019._:@/-"
_WORD = "abcxyz019_-"
_TEXT = "aé\u0301\u200d𝄞\x00\x7f\n\"\\ <%'"
_ENCODINGS = (b"json/plain", b"json/protobuf", b"binary/plain", b"binary/encrypted", b"none", b"")
# What several JSON parsers give, and what none does.
_ODD = (
    *(math.nan, math.inf, -math.inf, 2**53, -(2**64), 10**400, "\ud800", b"x", (), object),
    *(None, True, -0.0, 1e308, "", " ", "a\nb", "x" * 300, [], {}, [[]], {"": {}}, ["x"] * 60),
)


def good_tasks() -> st.SearchStrategy[dict[str, Any]]:
    """Tasks that every door lets in."""
    return _SEEDS.map(lambda seed: _good(Random(seed)))


def broken_tasks() -> st.SearchStrategy[dict[str, Any]]:
    """Good tasks with something odd in one place; now and then still good."""
    return _SEEDS.map(lambda seed: _broken(Random(seed)))


def broken_task(seed: int) -> dict[str, Any]:
    """The broken task of this seed."""
    return _broken(Random(seed))


def loose_json(task: Any) -> bytes:
    """As careless senders write JSON: with NaN, and with half a character."""
    try:
        return json.dumps(task, default=str).encode()
    except RecursionError:
        return b'{"task_id": ' + b"[" * 5000 + b"]" * 5000 + b"}"


def payload(seed: int) -> RawValue:
    """What a careless or a hostile caller may give for a task."""
    random = Random(seed)
    body = loose_json(_broken(Random(seed))) if random.random() < 0.7 else random.randbytes(40)
    encoding = b"json/plain" if random.random() < 0.7 else random.choice(_ENCODINGS)
    return RawValue(Payload(metadata={"encoding": encoding}, data=body))


def payloads(seed: int) -> list[RawValue]:
    """As many of them as are not always one."""
    return [payload(seed)] * Random(seed).choice([0, 1, 1, 1, 1, 1, 1, 2])


def json_objects() -> st.SearchStrategy[dict[str, Any]]:
    """Any JSON object."""
    return _SEEDS.map(lambda seed: _object(Random(seed), 3))


def _word(random: Random, alphabet: str, most: int) -> str:
    return "a" + "".join(random.choices(alphabet, k=random.randrange(most)))


def _kind(random: Random) -> str:
    return ".".join(_word(random, _WORD, 8) for _ in range(random.randint(1, 3)))


def _value(random: Random, depth: int) -> Any:
    match random.randrange(8 if depth else 6):
        case 0:
            return random.choice([None, True, False])
        case 1:
            return random.randint(-(2**53) + 1, 2**53 - 1)
        case 2:
            return random.choice([0.1, -0.0, 1e300, 5e-324, random.random()])
        case 3 | 4 | 5:
            return "".join(random.choices(_TEXT, k=random.randrange(9)))
        case 6:
            return [_value(random, depth - 1) for _ in range(random.randrange(4))]
        case _:
            return _object(random, depth - 1)


def _object(random: Random, depth: int) -> dict[str, Any]:
    names = [_word(random, _TEXT, 6) for _ in range(random.randrange(4))]
    return {name: _value(random, depth) for name in names}


def _good(random: Random) -> dict[str, Any]:
    steps = [
        {"name": f"{_word(random, _WORD, 12)}{number}", "kind": _kind(random)}
        | ({"input": _object(random, 3)} if random.random() < 0.8 else {})
        for number in range(random.randint(1, 4))
    ]
    if random.random() < 0.5:
        steps[0]["undo"] = {"kind": _kind(random), "input": _object(random, 2)}
    task = {"task_id": _word(random, _ID, 100), "kind": _kind(random), "steps": steps}
    if random.random() < 0.5:
        task |= {"partition": "eur", "message_id": "m-1", "undo_on_cancel": random.random() < 0.5}
    return task


def _broken(random: Random) -> dict[str, Any]:
    task = copy.deepcopy(_good(random))
    *way, last = random.choice(_places(task)[1:])
    holder: Any = task
    for part in way:
        holder = holder[part]
    match random.randrange(4):
        case 0 | 1:
            holder[last] = random.choice(_ODD)
        case 2:
            del holder[last]
        case _:
            value: Any = 1
            for _ in range(random.choice([5, 31, 33, 3000])):
                value = [value] if random.random() < 0.5 else {"v": value}
            holder[last] = value
    return task


def _places(value: Any, path: tuple = ()) -> list[tuple]:
    found = [path]
    parts = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for key, inner in parts:
        found += _places(inner, (*path, key))
    return found
