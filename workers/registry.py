"""From the deployment file to kinds with adapters."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ascertain.adapters.reach import REACH, Reach
from ascertain.contracts.secret import named_in
from ascertain.errors import InvalidSettings
from ascertain.kind import build_kind

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from ascertain.ports import Kind, Secrets
    from ascertain.settings import Settings
    from workers.secret import ProcessSecrets


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
        InvalidSettings: An adapter is unknown, or its options or semantics are wrong; names the file.
    """
    hosts = settings.outside.hosts
    REACH.set(None if hosts is None else Reach(hosts))
    kinds: dict[str, Kind] = {}
    for name, chosen in settings.kinds.items():
        try:
            kind = build_kind(name, chosen, secrets, settings.task_queue)
        except InvalidSettings as error:
            raise settings.faulty(str(error)) from error
        foreign = only_queues is not None and kind.queue not in {None, *only_queues}
        kinds[name] = replace(kind, adapter=None) if foreign else kind
    return kinds


async def try_kinds(settings: Settings, secrets: ProcessSecrets) -> None:
    """Make every kind once and let go of it: what a worker would stumble over is told before it starts.

    Raises:
        InvalidSettings: As ``build_kinds``.
        MissingSecret: A secret that a kind names is not here.
    """
    kinds = build_kinds(settings, secrets)
    try:
        secrets.require(name for each in settings.kinds.values() for name in named_in(each.options))
    finally:
        await close(kinds)


async def close(kinds: Mapping[str, Kind]) -> None:
    """Let go of what the adapters hold."""
    for kind in kinds.values():
        if kind.adapter is not None:
            await kind.adapter.aclose()
