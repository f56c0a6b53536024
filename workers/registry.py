"""From the deployment file to kinds with adapters."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ascertain.adapters.reach import REACH, Reach
from ascertain.kind import build_kind

if TYPE_CHECKING:
    from collections.abc import Collection

    from ascertain.ports import Kind, Secrets
    from ascertain.settings import Settings


def build_kinds(
    settings: Settings, secrets: Secrets, only_queues: Collection[str] | None = None
) -> dict[str, Kind]:
    """Every kind of the deployment, with its adapter.

    Args:
        settings: The deployment file.
        secrets: Where adapters resolve ``secret:NAME``.
        only_queues: Task queues whose queued kinds this process does; kinds of other queues are known but
            get no adapter, so their secrets need not be here. None: all.

    Raises:
        InvalidSettings: An adapter is unknown, or its options or semantics are wrong.
    """
    hosts = settings.outside.hosts
    REACH.set(None if hosts is None else Reach(hosts))
    kinds: dict[str, Kind] = {}
    for name, chosen in settings.kinds.items():
        kind = build_kind(name, chosen, secrets, settings.task_queue)
        foreign = only_queues is not None and kind.queue not in {None, *only_queues}
        kinds[name] = replace(kind, adapter=None) if foreign else kind
    return kinds
