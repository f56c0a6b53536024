"""A stream: many small tasks that share one workflow while all goes well, chunk by chunk."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

from pydantic import Field

from ascertain.contracts.replay import Said
from ascertain.contracts.task import Task
from ascertain.contracts.value import Moment, StrictValue, Value

# Beyond that a chunk is slow to claim, and a crash leaves much to ascertain.
CHUNK_MAX = 500
# So many names are kept of what needs a look; the numbers count all.
NAMED_MAX = 1000


class Chunk(Value):
    """Tasks that are claimed and recorded together; each effect keeps its id, claim and audit."""

    tasks: Annotated[tuple[Task, ...], Field(min_length=1, max_length=CHUNK_MAX)]


class Numbered(StrictValue):
    """What a chunk is fed under.

    Attributes:
        number: From 0, without gaps.
        count: How many tasks it holds.
    """

    number: Annotated[int, Field(ge=0, lt=2**53)]
    count: Annotated[int, Field(ge=1, le=CHUNK_MAX)]


class Tally(Value):
    """What became of tasks; the parts add up to ``tasks``.

    Attributes:
        settled: Their effects exist.
        refused: The outside said no for good.
        handed_over: Are workflows of their own now, under their own task_id, beginning with a lookup.
        conflicting: Their ids were used before for other content, or their deadlines passed before their
            turn; nothing was done for them.
        abandoned: A person had given them up, or cancelled them, before; nothing was done for them.
    """

    tasks: int = 0
    settled: int = 0
    refused: int = 0
    handed_over: int = 0
    conflicting: int = 0
    abandoned: int = 0

    @property
    def begun(self) -> bool:
        """Whether anything was done for any of them."""
        return self.settled + self.refused + self.handed_over > 0

    def plus(self, other: Tally) -> Tally:
        """Both together."""
        return Tally(
            **{name: getattr(self, name) + getattr(other, name) for name in Tally.model_fields}
        )


class Carried(Value):
    """How far a chunk came.

    Attributes:
        handed_over: Tasks that left it, by name.
        conflicting: Tasks whose ids were used before, by name.
        held: The paused partition whose tasks were not begun; the chunk is carried again later.
        held_for: How long it takes until the first turn among them comes, if its gate opens little by little.
    """

    tally: Tally
    handed_over: tuple[str, ...] = ()
    conflicting: tuple[str, ...] = ()
    held: str | None = None
    held_for: timedelta | None = None


class StreamProgress(Value):
    """What a stream has done, and what a further run of it is given over.

    Attributes:
        chunks: Numbers of the chunks that are done, as the first that is not and those beyond it.
        handed_over: The first tasks that became workflows of their own.
        conflicting: The first tasks whose ids were used before.
        held: Paused partitions that chunks wait for now.
        begun_at: When the first run of the stream was started.
        free_at: Before then its rate lets no further chunk begin; None: it has no rate.
        said: Who paused it, or let it go on, or closed it last, and why; None: whoever did said nothing. A
            feeder that has come to its end leaves it as it is.
        answered: The answers to persons' words by their request id, so that a repeat is applied once.
    """

    tally: Tally = Tally()
    done_below: int = 0
    done_beyond: tuple[int, ...] = ()
    handed_over: tuple[str, ...] = ()
    conflicting: tuple[str, ...] = ()
    held: tuple[str, ...] = ()
    begun_at: Moment | None = None
    free_at: Moment | None = None
    paused: bool = False
    closed: bool = False
    said: str | None = None
    answered: dict[str, Said] = Field(default_factory=dict)


class StreamOrder(StrictValue):
    """What a stream is started with.

    Attributes:
        per_second: Most tasks begun in a second; None: as fast as they come.
        progress: Set by an earlier run of the same stream only.
    """

    per_second: Annotated[float, Field(ge=0.01, le=1_000_000)] | None = None
    progress: StreamProgress = StreamProgress()
