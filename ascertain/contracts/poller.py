"""How a worker names itself to Temporal, so that whoever reads it can compare what it serves.

``PROCESS#TABLES#KINDS``: the last two are digests, of the tables of its kinds and of their names. A worker of
0.1 says the last alone, and one that is none of ours says neither.
"""

from __future__ import annotations

from enum import Enum
from hashlib import sha256
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


class Served(Enum):
    """What a worker serves, beside what a deployment file says."""

    SAME = "same"
    OTHER_TABLES = "other_tables"
    OTHER_KINDS = "other_kinds"


def poller(identity: str, kinds: Mapping[str, str]) -> str:
    """The name of a worker.

    Args:
        identity: Its process.
        kinds: The kinds that it serves, each with the digest of its table.
    """
    return "#".join((identity, *_digests(kinds)))


def served(name: str, kinds: Mapping[str, str]) -> Served:
    """How a worker of that name serves these kinds; where it does not say, nothing differs."""
    tables, names = _digests(kinds)
    match name.rsplit("#", 2)[1:]:
        case [*_, other] if other != names:
            return Served.OTHER_KINDS
        case [other, _] if other != tables:
            return Served.OTHER_TABLES
        case _:
            return Served.SAME


def _digests(kinds: Mapping[str, str]) -> tuple[str, str]:
    return _digest(f"{name} {table}" for name, table in kinds.items()), _digest(kinds)


def _digest(lines: Iterable[str]) -> str:
    return sha256("\n".join(sorted(lines)).encode()).hexdigest()[:8]
