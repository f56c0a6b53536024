"""What is run: which sides, under which loads, how often."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Store(StrEnum):
    """Where the Temporal server keeps its histories."""

    MEMORY = "memory"
    FILE = "file"


class Contender(StrEnum):
    """A way to do the job.

    ``ascertain`` inline effect behind a claim · ``eager`` the same, submitted by the worker's own process ·
    ``stream`` many effects in one stream, a chunk at a time · ``bare`` plain Temporal with an ordinary
    activity · ``dbos`` a DBOS workflow per effect · ``dbos50`` a DBOS workflow per fifty effects, which it
    claims and settles together · ``procrastinate`` a Procrastinate job with a table of claims in it ·
    ``restate`` a Restate invocation per effect · ``call`` the HTTP call alone · ``call2`` the call between
    two commits on PostgreSQL.
    """

    ASCERTAIN = "ascertain"
    EAGER = "eager"
    STREAM = "stream"
    BARE = "bare"
    DBOS = "dbos"
    DBOS50 = "dbos50"
    PROCRASTINATE = "procrastinate"
    RESTATE = "restate"
    CALL = "call"
    CALL2 = "call2"


FLOOR = frozenset({Contender.CALL, Contender.CALL2})
PEERS = frozenset({Contender.DBOS, Contender.DBOS50, Contender.PROCRASTINATE, Contender.RESTATE})
# The sides whose work one worker process of Ascertain does.
SERVED = frozenset({Contender.ASCERTAIN, Contender.STREAM})
USUAL = tuple(contender for contender in Contender if contender not in PEERS)


@dataclass(frozen=True, slots=True)
class Load:
    """How many tasks are under way at a time, and how many there are in one batch."""

    in_flight: int
    tasks: int

    @property
    def name(self) -> str:
        """As it stands in results."""
        return "sequential" if self.in_flight == 1 else f"in_flight_{self.in_flight}"


@dataclass(frozen=True, slots=True)
class Plan:
    """One run.

    Attributes:
        settle_s: How long after each batch its processor time is still counted, in seconds: servers finish
            work that they put off.
        idle_s: How long the idle stack is watched, in seconds.
    """

    store: Store = Store.MEMORY
    contenders: tuple[Contender, ...] = USUAL
    rounds: int = 5
    loads: tuple[Load, ...] = (Load(1, 15), Load(10, 50), Load(100, 100))
    settle_s: float = 0.3
    idle_s: float = 2

    @property
    def apart(self) -> int:
        """Tasks of a side's batch that is not timed: to warm it up, and to count what it does."""
        return min(50, max(load.tasks for load in self.loads))

    @property
    def command(self) -> str:
        """The command that runs it."""
        words = ["./run bench", f"--server {self.store}", f"--rounds {self.rounds}"]
        words += [f"--load {load.in_flight}:{load.tasks}" for load in self.loads]
        if PEERS & set(self.contenders):
            words.append("--peers")
        if self.contenders not in {USUAL, tuple(Contender)}:
            words += [f"--side {contender}" for contender in self.contenders]
        return " ".join(words)
