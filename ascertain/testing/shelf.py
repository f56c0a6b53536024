"""Entries in order, found by key and by reference without looking at the others."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar


class _Filed(Protocol):
    @property
    def key(self) -> str | None: ...
    @property
    def reference(self) -> str | None: ...


E = TypeVar("E", bound=_Filed)


def no_positions() -> defaultdict[str, list[int]]:
    """An empty index: for each word, positions in ascending order."""
    return defaultdict(list)


@dataclass(slots=True)
class Shelf(Generic[E]):
    """One kind of entry, in order."""

    entries: list[E] = field(default_factory=list[E])
    by_key: defaultdict[str, list[int]] = field(default_factory=no_positions)
    by_reference: defaultdict[str, list[int]] = field(default_factory=no_positions)

    def add(self, entry: E) -> None:
        """Put an entry behind the others."""
        position = len(self.entries)
        self.entries.append(entry)
        if entry.key is not None:
            self.by_key[entry.key].append(position)
        if entry.reference is not None:
            self.by_reference[entry.reference].append(position)

    def positions(self, key: str | None, reference: str | None) -> Sequence[int]:
        """Where the entries of a key, of a reference, of both, or all of them stand."""
        if key is not None and reference is not None:
            wanted = set(self.by_reference.get(reference, ()))
            return [at for at in self.by_key.get(key, ()) if at in wanted]
        if key is not None:
            return self.by_key.get(key, ())
        if reference is not None:
            return self.by_reference.get(reference, ())
        return range(len(self.entries))

    def find(self, key: str | None, reference: str | None) -> list[E]:
        """The entries of a key, of a reference, of both, or all of them."""
        return [self.entries[at] for at in self.positions(key, reference)]
