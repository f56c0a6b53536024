"""Nonsense for every workflow, signal, update and query: one sentence, and no task that fails for ever."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from itertools import count
from typing import Any

import pytest
from temporalio.api.common.v1 import Payload
from temporalio.api.sdk.v1 import WorkflowMetadata
from temporalio.client import (
    Client as TemporalClient,
    WorkflowFailureError,
    WorkflowUpdateFailedError,
)
from temporalio.common import RawValue
from temporalio.exceptions import ApplicationError

from activities.serving import Serving
from ascertain.codec import data_converter
from ascertain.contracts import names
from ascertain.ledger.model import ModelLedger
from workers.worker import Role, build_workers

QUEUE = "nonsense"
OPERATOR = {"operator": "ada", "reason": "a test"}
# What each workflow is rightly started with: none of it comes to an end by itself that has a handler.
RIGHT: dict[str, dict[str, Any]] = {
    "Task": {"kind": "k", "steps": [{"name": "a", "kind": "served.by.nobody"}]},
    "Stream": {},
    "Sweep": {},
    "Census": {"kinds": []},
    "Replay": OPERATOR,
    "Incident": OPERATOR,
    "Gate": {**OPERATOR, "paused": False},
}
every_type = pytest.mark.parametrize("type_", RIGHT)
_numbers = count(1)


def raw(data: bytes, encoding: bytes = b"json/plain") -> RawValue:
    return RawValue(Payload(metadata={"encoding": encoding}, data=data))


# Every field of every argument, none as it should be.
WRONG = raw(
    b'{"task_id": 1, "kind": 1, "steps": 1, "task": 1, "progress": 1, "per_second": "x", "older_than": "x", '
    b'"kinds": 1, "operator": 1, "reason": 1, "partition": 1, "paused": "x", "action": 1, "step": 1}'
)
ODD = (
    raw(b"{"),
    raw(b"5"),
    raw(b"[]"),
    raw(b"\xff\xfe"),
    raw(b"null"),
    raw(b"[" * 5000),
    raw(b"\0" * 40, b"binary/encrypted"),
    raw(b"x", b"binary/plain"),
    raw(b"x", b"json/protobuf"),
    raw(b"x", b"of nobody"),
    raw(b"x", b""),
    WRONG,
)
NONSENSE: tuple[list[RawValue], ...] = (
    [],
    *([one] for one in ODD),
    [ODD[0], ODD[-1]],
    [ODD[9], ODD[9]],
    [WRONG] * 4,
)


class Served:
    """A worker of every workflow type, with a ledger that nobody has written to."""

    def __init__(self, client: TemporalClient, types: set[str]) -> None:
        self.client = client
        self.types = types

    async def start(self, type_: str, args: list[Any], name: str | None = None, **options: Any):
        workflow_id = name or f"nonsense-{next(_numbers)}"
        return await self.client.start_workflow(
            type_, args=args, id=workflow_id, task_queue=QUEUE, **options
        )

    async def rightly(self, type_: str):
        """One that runs, or has come to a good end."""
        partition = f"p{next(_numbers)}"
        name = f"incident-{partition}" if type_ == "Incident" else f"right-{partition}"
        wanted = {"Task": {"task_id": name}}.get(type_, {"partition": partition})
        if type_ in {"Stream", "Sweep", "Census", "Replay"}:
            wanted = {}
        return await self.start(type_, [RIGHT[type_] | wanted], name)


@pytest.fixture(scope="module")
async def served(temporal):
    client = await TemporalClient.connect(temporal.address, data_converter=data_converter())
    ledger = ModelLedger(lambda: datetime.now(UTC))
    (worker,) = build_workers(client, Serving(ledger, {}, QUEUE), Role(), QUEUE)
    types = {cls.__temporal_workflow_definition.name for cls in worker.config()["workflows"]}
    async with worker:
        yield Served(client, types)


def is_one_sentence(cause: BaseException | None) -> None:
    assert isinstance(cause, ApplicationError), repr(cause)
    assert 0 < len(cause.message) < 2000
    assert "\n" not in cause.message
    assert cause.failure is not None
    assert cause.failure.stack_trace == ""
    assert cause.__cause__ is None


async def failed_tasks(handle) -> list[str]:
    """Why tasks of the workflow failed; that a busy machine held one up for seconds is not its doing."""
    history = await handle.fetch_history()
    failed = [event.workflow_task_failed_event_attributes for event in history.events]
    said = [one.failure.message for one in failed if one.HasField("failure")]
    return [words for words in said if "TMPRL1101" not in words]


async def ends_with_one_sentence(handle) -> str:
    with pytest.raises(WorkflowFailureError) as caught:
        await handle.result()
    is_one_sentence(caught.value.cause)
    assert await failed_tasks(handle) == []
    return caught.value.cause.type


async def test_no_workflow_type_of_the_worker_is_forgotten_here(served):
    assert served.types == set(RIGHT)


@every_type
async def test_nonsense_ends_the_workflow_with_one_sentence(served, type_):
    handles = [await served.start(type_, args) for args in NONSENSE]
    types = await asyncio.gather(*map(ends_with_one_sentence, handles))
    assert set(types) == {"InvalidTask" if type_ == "Task" else "InvalidRequest"}


CONTINUED = {
    "task": {"task_id": "forged", "kind": "k", "steps": [{"name": "a", "kind": "k"}]},
    "progress": {"taking_back": ["b"]},
}


@pytest.mark.parametrize(
    ("type_", "argument"),
    [
        ("Sweep", {"older_than": "P999999999D"}),
        ("Census", {"kinds": ["k"], "no_older_than": "P999999999D"}),
        ("Stream", {"per_second": 1e-300}),
        ("Replay", {**OPERATOR, "pace": {"patience": "P999999999D"}}),
        ("Task", CONTINUED),
        ("Task", {**CONTINUED, "progress": {"steps": 1}}),
    ],
)
async def test_what_nothing_can_be_reckoned_with_is_refused_too(served, type_, argument):
    await ends_with_one_sentence(await served.start(type_, [argument]))


@pytest.mark.parametrize("memo", ["long ago", 1, {"at": "2027"}])
async def test_a_memo_that_is_none_of_ours_ends_the_task_with_one_sentence(served, memo):
    name = f"memo-{next(_numbers)}"
    task = RIGHT["Task"] | {"task_id": name}
    handle = await served.start("Task", [task], name, memo={names.MEMO_BEGUN_AT: memo})
    await ends_with_one_sentence(handle)


async def refuses(handle, update: str, args: list[RawValue]) -> None:
    with pytest.raises(WorkflowUpdateFailedError) as caught:
        await handle.execute_update(update, args=args)
    is_one_sentence(caught.value.cause)


@every_type
async def test_nonsense_said_to_a_workflow_is_answered_or_passed_over(served, type_):
    handle = await served.rightly(type_)
    metadata = await handle.query("__temporal_workflow_metadata", result_type=WorkflowMetadata)
    known = metadata.definition
    queries = [one.name for one in known.query_definitions if not one.name.startswith("__")]
    for args in NONSENSE:
        for update in known.update_definitions:
            await refuses(handle, update.name, args)
        for query in queries:
            assert await handle.query(query, args=args) is not None
    # A stream's close needs no words, and ends it.
    for signal in sorted(known.signal_definitions, key=lambda one: one.name == names.CLOSE):
        for args in NONSENSE[: None if signal.name != names.CLOSE else 1]:
            await handle.signal(signal.name, args=args)
    for query in queries:
        assert await handle.query(query) is not None
    assert await failed_tasks(handle) == []


async def test_a_chunk_that_is_none_is_refused_and_the_stream_goes_on(served):
    handle = await served.rightly("Stream")
    whole = {"tasks": [RIGHT["Task"] | {"task_id": f"chunk-{next(_numbers)}"}]}
    step = {"name": "a", "kind": "k", "input": {"more than a double holds": 2**60}}
    huge = {"tasks": [{**whole["tasks"][0], "task_id": "huge", "steps": [step]}]}
    for args in (
        ["x", 1, whole],
        [0, 0, whole],
        [-1, 1, whole],
        [0, 10**9, whole],
        [2**60, 1, whole],
    ):
        await refuses(handle, names.FEED, args)
    for chunk in ODD:
        await refuses(handle, names.FEED, [0, 1, chunk])
    await handle.execute_update(names.FEED, args=[0, 1, whole])
    await handle.execute_update(names.FEED, args=[1, 1, huge])
    await handle.signal(names.CLOSE, args=[ODD[0]])
    tally = (await handle.result())["tally"]
    assert (tally["tasks"], tally["handed_over"], tally["conflicting"]) == (2, 1, 1)
    assert await failed_tasks(handle) == []


async def test_persons_hear_why_their_signal_was_passed_over(served):
    for type_, signal in (("Task", names.TAKEOVER), ("Incident", names.APPROVE)):
        handle = await served.rightly(type_)
        await handle.signal(signal, args=[ODD[0]])
        status = await handle.query(names.STATUS)
        told = status["refused_commands" if type_ == "Task" else "refused"]
        assert "must be an object" in str(told)
