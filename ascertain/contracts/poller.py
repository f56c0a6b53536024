"""How a worker names itself to Temporal, so that whoever reads it can compare what it serves.

``PROCESS#LEDGER#TABLES#KINDS``: the last three are digests, of which ledger it writes to, of the tables of
its kinds and of their names. A worker of 0.1 says the last alone, one that is none of ours none of them.
"""

from __future__ import annotations

import re
from enum import Enum
from hashlib import sha256
from itertools import takewhile
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_DIGITS: Final = 8
_DIGEST: Final = re.compile(f"[0-9a-f]{{{_DIGITS}}}")


class Served(Enum):
    """What a worker serves, beside what a deployment file says."""

    SAME = "same"
    OTHER_TABLES = "other_tables"
    OTHER_KINDS = "other_kinds"


def poller(identity: str, kinds: Mapping[str, str], origin: str = "") -> str:
    """The name of a worker.

    Args:
        identity: Its process.
        kinds: The kinds that it serves, each with the digest of its table.
        origin: Of its ledger, as ``ports.Upkeep.origin`` gives it; empty: that is not said.
    """
    marks = (mark(origin),) if origin else ()
    return "#".join((identity, *marks, *_digests(kinds)))


def served(name: str, kinds: Mapping[str, str]) -> Served:
    """How a worker of that name serves these kinds; where it does not say, nothing differs."""
    tables, names = _digests(kinds)
    match _said(name):
        case [other, *_] if other != names:
            return Served.OTHER_KINDS
        case [_, other, *_] if other != tables:
            return Served.OTHER_TABLES
        case _:
            return Served.SAME


def ledger_of(name: str) -> str | None:
    """The mark of the ledger that a worker of that name writes to; None: it does not say."""
    match _said(name):
        case [_, _, ledger, *_]:
            return ledger
        case _:
            return None


def process_of(name: str) -> str:
    """The process of a worker of that name."""
    said = _said(name)
    return "#".join(name.split("#")[: -len(said)]) if said else name


def mark(origin: str) -> str:
    """What tells a ledger from others in the names of its workers."""
    return _digest([origin])


def _said(name: str) -> list[str]:
    """The digests at the end of a name, the last first."""
    _, *rest = name.split("#")
    return [*takewhile(_DIGEST.fullmatch, reversed(rest))]


def _digests(kinds: Mapping[str, str]) -> tuple[str, str]:
    return _digest(f"{name} {table}" for name, table in kinds.items()), _digest(kinds)


def _digest(lines: Iterable[str]) -> str:
    return sha256("\n".join(sorted(lines)).encode()).hexdigest()[:_DIGITS]
