"""A Temporal server that keeps nothing, with dynamic configuration over what the stack's own has."""

from __future__ import annotations

from typing import TYPE_CHECKING

from typing_extensions import override

from starter.temporal import TemporalServer

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path


class TunedServer(TemporalServer):
    """One server of a run."""

    def __init__(self, directory: Path, configuration: Mapping[str, str]) -> None:
        """Describe it.

        Args:
            directory: As of every server.
            configuration: Values as JSON, by key; they come after those of the stack, and so win.
        """
        super().__init__(directory, in_memory=True)
        self._configuration = configuration

    @override
    def _command(self) -> Sequence[str]:
        pairs = (f"{name}={value}" for name, value in self._configuration.items())
        own = (word for pair in pairs for word in ("--dynamic-config-value", pair))
        return (*super()._command(), *own)
