"""From the deployment file to kinds with adapters."""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, cast

from pydantic import ValidationError

from ascertain.adapters.reach import REACH, Reach
from ascertain.contracts.fault import faults
from ascertain.contracts.semantics import Semantics
from ascertain.errors import InvalidSettings
from ascertain.ports import Kind

if TYPE_CHECKING:
    from collections.abc import Collection

    from ascertain.ports import AdapterFactory, Secrets
    from ascertain.settings import KindSettings, Settings

GROUP = "ascertain.adapters"


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
    if settings.outside.hosts is not None:
        REACH.set(Reach(settings.outside.hosts))
    kinds: dict[str, Kind] = {}
    for name, chosen in settings.kinds.items():
        kind = _build(name, chosen, secrets)
        foreign = only_queues is not None and kind.queue not in {None, *only_queues}
        kinds[name] = Kind(name, kind.semantics, kind.policy, None) if foreign else kind
    return kinds


def _build(name: str, chosen: KindSettings, secrets: Secrets) -> Kind:
    adapter = _factory(name, chosen.adapter)(name, chosen.options, secrets)
    declared = adapter.semantics.model_dump(mode="json")
    try:
        semantics = Semantics.model_validate({**declared, **chosen.semantics})
    except ValidationError as error:
        raise InvalidSettings(f'kinds."{name}".semantics.{faults(error)}') from None
    return Kind(name, semantics, chosen.policy, adapter)


def _factory(kind: str, adapter: str) -> AdapterFactory:
    if ":" in adapter:
        module, _, attribute = adapter.partition(":")
        try:
            return cast("AdapterFactory", getattr(import_module(module), attribute))
        except (ImportError, AttributeError) as error:
            raise InvalidSettings(
                f'kinds."{kind}": cannot load adapter {adapter}: {error}'
            ) from error
    found = entry_points(group=GROUP, name=adapter)
    if not found:
        known = ", ".join(sorted(entry.name for entry in entry_points(group=GROUP)))
        raise InvalidSettings(f'kinds."{kind}": no adapter is named {adapter}; there are: {known}')
    try:
        return cast("AdapterFactory", next(iter(found)).load())
    except ImportError as error:
        raise InvalidSettings(
            f'kinds."{kind}": adapter {adapter} needs a package that is not installed ({error}); '
            f"for a built-in adapter: pip install 'ascertain[{adapter}]'"
        ) from error
