"""Streams from the client's side: feed many tasks, chunk by chunk, and learn how far they are."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from temporalio.client import WorkflowExecutionStatus, WorkflowUpdateFailedError
from temporalio.common import WorkflowIDConflictPolicy, WorkflowIDReusePolicy
from temporalio.exceptions import ApplicationError, WorkflowAlreadyStartedError
from temporalio.service import RPCError, RPCStatusCode

from ascertain.connection import RPC_TIMEOUT, answered
from ascertain.contracts import names
from ascertain.contracts.stream import CHUNK_MAX, Chunk, StreamOrder, StreamProgress
from ascertain.errors import CommandRefused, Conflict, InvalidTask, NotFound, TemporalDown
from ascertain.predecessor import started_with
from ascertain.word import say

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, AsyncIterator, Sequence

    from temporalio.client import WorkflowHandle

    from ascertain.client import Client
    from ascertain.contracts.replay import Say
    from ascertain.contracts.task import Task

# A stream that goes on in a new history takes chunks again in a moment.
_MOVING_PAUSE_S: Final = 0.2
_MOVING_TRIES: Final = 100
_CLOSED: Final = "Closed"
# It goes on in a new history, or somebody reset it.
_MOVING: Final = frozenset({"Moving", "AcceptedUpdateCompletedWorkflow"})
# Temporal lets ten updates of one workflow wait.
_MOST_FED: Final = 10
# In so many chunks a rate is spread over a second, where it has as many tasks.
CHUNKS_A_SECOND: Final = 5


def workflow_id(name: str) -> str:
    """The workflow that a stream is."""
    return f"stream:{name}"


@dataclass(frozen=True, slots=True)
class Terms:
    """What a stream was begun with, and keeps.

    Attributes:
        per_second: Most tasks begun in a second; None: as fast as they come.
        chunk: Most tasks that are claimed together; None: as many as whoever feeds it gives at a time.
    """

    per_second: float | None
    chunk: int | None


@dataclass(frozen=True, slots=True)
class Stream:
    """One stream of a deployment.

    Chunks are numbered by who feeds them, from 0 without gaps, so that a feeder who starts over repeats
    the same numbers and nothing is counted twice. Two feeders of one stream would take each other's.
    """

    client: Client
    name: str

    async def open(
        self,
        *,
        per_second: float | None = None,
        content: str | None = None,
        chunk: int | None = None,
    ) -> bool:
        """Start it, find it running, or find it over.

        Args:
            per_second: Most tasks begun in a second; of a running stream, what it was started with stays.
            content: A fingerprint of all that will be fed, if that is known before.
            chunk: Tasks that are claimed together, which ``carry`` then keeps to, whoever feeds it again;
                a rate makes it smaller, for a chunk begins as a whole.

        Returns:
            Whether it takes chunks; a stream that is over has carried the same content before.

        Raises:
            Conflict: A stream of this name carries other content, or is over and nobody knows its content.
            TemporalDown: No answer; open it again.
        """
        try:
            with answered(f"open stream {self.name}"):
                await self.client.temporal.start_workflow(
                    names.STREAM_WORKFLOW,
                    StreamOrder(per_second=per_second),
                    id=workflow_id(self.name),
                    task_queue=self.client.task_queue,
                    id_reuse_policy=WorkflowIDReusePolicy.ALLOW_DUPLICATE_FAILED_ONLY,
                    id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
                    memo={
                        names.MEMO_FINGERPRINT: content,
                        names.MEMO_CHUNK: _chunk_of(per_second, chunk),
                    },
                    rpc_timeout=RPC_TIMEOUT,
                )
        except WorkflowAlreadyStartedError:
            pass
        return await self._carries(content)

    async def _carries(self, content: str | None) -> bool:
        with answered(f"look at stream {self.name}"):
            found = await self._handle.describe(rpc_timeout=RPC_TIMEOUT)
        stored = await found.memo_value(names.MEMO_FINGERPRINT, default=None, type_hint=str)
        runs = found.status is WorkflowExecutionStatus.RUNNING
        if (content is None and not runs) or (content is not None and stored != content):
            raise Conflict(
                f"stream {self.name!r} carries other tasks; see `ascertain stream status {self.name}`, and "
                "use another name for these"
            )
        return runs

    async def feed(self, number: int, tasks: Sequence[Task]) -> None:
        """Have one chunk carried; comes back when each of its tasks is settled, refused or handed over.

        Raises:
            CommandRefused: The stream was closed before this chunk.
            NotFound: There is no such stream.
            TemporalDown: No answer; feed the same chunk under the same number again.
        """
        content = Chunk(tasks=tuple(tasks)).model_dump(mode="json", exclude_defaults=True)
        for _ in range(_MOVING_TRIES):
            try:
                await self._give(number, len(tasks), content)
            except WorkflowUpdateFailedError as error:
                self._check(error)
            except NotFound:
                if not await self._runs():
                    raise
            else:
                return
            await asyncio.sleep(_MOVING_PAUSE_S)
        raise TemporalDown(f"stream {self.name} takes no chunks now; feed chunk {number} again")

    async def _give(self, number: int, size: int, content: object) -> None:
        """Give a chunk once there is room: those of a feeder that was killed may still wait."""
        while True:
            try:
                with answered(f"feed chunk {number} of stream {self.name}"):
                    await self._handle.execute_update(  # pyright: ignore[reportUnknownMemberType]  # the SDK's overloads
                        names.FEED, args=[number, size, content]
                    )
                    return
            except TemporalDown as error:
                if not _is_full(error):
                    raise
            await asyncio.sleep(_MOVING_PAUSE_S)

    def _check(self, error: WorkflowUpdateFailedError) -> None:
        """Let pass what only means that the stream goes on in a new history."""
        kind = error.cause.type if isinstance(error.cause, ApplicationError) else None
        if kind == _CLOSED:
            raise CommandRefused(f"stream {self.name} is closed; use another name") from error
        if kind not in _MOVING:
            raise CommandRefused(f"stream {self.name}: {error.cause}") from error

    async def _runs(self) -> bool:
        with answered(f"look at stream {self.name}"):
            found = await self._handle.describe(rpc_timeout=RPC_TIMEOUT)
        return found.status is WorkflowExecutionStatus.RUNNING

    async def carry(
        self, tasks: AsyncIterable[Task], *, chunk: int = 100, window: int = 4
    ) -> AsyncIterator[int]:
        """Feed all of these tasks; gives back how many are done whenever another chunk is.

        Args:
            tasks: In an order that is the same if the feeding is started over.
            chunk: Tasks that are claimed together, in a stream that was opened for none or with no rate;
                then the same must be given whenever the feeding is started over.
            window: Chunks under way at a time; twice as many where a rate makes them smaller.

        Raises:
            CommandRefused, NotFound, TemporalDown: As ``feed``.
        """
        size = await self._chunk() or chunk
        if size < chunk:  # for its rate; calls that take long need more of them
            window = min(2 * window, _MOST_FED)
        done = 0
        under_way: set[asyncio.Task[int]] = set()
        try:
            async for number, part in _chunks(tasks, size):
                under_way.add(asyncio.create_task(self._fed(number, part)))
                while len(under_way) >= window:
                    ended, under_way = await asyncio.wait(
                        under_way, return_when=asyncio.FIRST_COMPLETED
                    )
                    done += sum(task.result() for task in ended)
                    yield done
            for task in asyncio.as_completed(under_way):
                done += await task
                yield done
        finally:
            for task in under_way:
                task.cancel()
            # What they end with is no news, and the loop would show it with tracebacks.
            await asyncio.gather(*under_way, return_exceptions=True)

    async def _chunk(self) -> int | None:
        """What it was opened for: what is done is remembered by the chunks' numbers."""
        with answered(f"look at stream {self.name}"):
            found = await self._handle.describe(rpc_timeout=RPC_TIMEOUT)
        return await found.memo_value(names.MEMO_CHUNK, default=None, type_hint=int)

    async def terms(self) -> Terms:
        """What it was begun with, whatever was asked for since; also of a stream that is over.

        Raises:
            NotFound: There is no such stream.
            TemporalDown: No answer; ask again.
        """
        try:
            order = await started_with(self.client.temporal, workflow_id(self.name))
        except InvalidTask:
            order = {}  # anybody may start one with anything; it has no rate then
        rate: object = order.get("per_second")
        return Terms(float(rate) if isinstance(rate, int | float) else None, await self._chunk())

    async def _fed(self, number: int, part: Sequence[Task]) -> int:
        await self.feed(number, part)
        return len(part)

    async def close(self, word: Say | None = None) -> StreamProgress:
        """Say that nothing more comes, and wait for what became of all.

        Args:
            word: Who says so and why; a feeder that has come to its end need not say.

        Raises:
            NotFound: There is no such stream.
            TemporalDown: No answer; close it again.
        """
        with answered(f"close stream {self.name}"):
            told = [] if word is None else [word.model_dump(mode="json", exclude_none=True)]
            await self._handle.signal(names.CLOSE, args=told, rpc_timeout=RPC_TIMEOUT)
        return await self.result()

    async def result(self) -> StreamProgress:
        """Wait for what became of all; of a stream that is over, at once.

        Raises:
            NotFound: There is no such stream.
            TemporalDown: No answer; ask again.
        """
        with answered(f"wait for stream {self.name}"):
            ended: StreamProgress = await self._handle.result()
        return ended

    async def progress(self) -> StreamProgress:
        """How far it is. Needs a running worker.

        Raises:
            NotFound: There is no such stream.
            TemporalDown: No worker answered.
        """
        try:
            with answered(f"ask stream {self.name}"):
                answer: StreamProgress = await self._handle.query(
                    names.STATUS, result_type=StreamProgress, rpc_timeout=RPC_TIMEOUT
                )
        except NotFound as error:
            raise NotFound(f"there is no stream {self.name}") from error
        return answer

    async def pause(self, word: Say) -> str:
        """Begin no further chunk; what is under way is finished.

        Args:
            word: Who says so and why; a repeat under its request id is applied once.

        Returns:
            What holds now, in words.

        Raises:
            CommandRefused: It is paused already.
            NotFound: There is no such stream; ``AlreadyOver``: it is over.
            TemporalDown: No worker answered; it may or may not be applied.
        """
        return await self._say(names.PAUSE, word)

    async def resume(self, word: Say) -> str:
        """Go on.

        Args, Returns, Raises:
            As ``pause``; refused if it is not paused.
        """
        return await self._say(names.RESUME, word)

    async def _say(self, what: str, word: Say) -> str:
        stream = workflow_id(self.name)
        return await say(self.client.temporal, stream, f"stream {self.name}", what, word)

    @property
    def _handle(self) -> WorkflowHandle[object, StreamProgress]:
        return self.client.temporal.get_workflow_handle(
            workflow_id(self.name), result_type=StreamProgress
        )


def _chunk_of(per_second: float | None, chunk: int | None) -> int | None:
    """A chunk begins as a whole, so that a rate is kept only as closely as its chunks are small."""
    if per_second is None:
        return chunk
    return min(chunk or CHUNK_MAX, max(int(per_second / CHUNKS_A_SECOND), 1))


async def _chunks(
    tasks: AsyncIterable[Task], size: int
) -> AsyncIterator[tuple[int, Sequence[Task]]]:
    number = 0
    part: list[Task] = []
    async for task in tasks:
        part.append(task)
        if len(part) == size:
            yield number, part
            number, part = number + 1, []
    if part:
        yield number, part


def _is_full(error: TemporalDown) -> bool:
    cause = error.__cause__
    return isinstance(cause, RPCError) and cause.status is RPCStatusCode.RESOURCE_EXHAUSTED
