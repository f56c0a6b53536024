"""From a kind's table in the deployment file to the kind, with its adapter."""

from __future__ import annotations

import logging
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, cast

from pydantic import ValidationError

from ascertain.contracts import names
from ascertain.contracts.fault import faults, near
from ascertain.contracts.measured import Measured, limited
from ascertain.contracts.semantics import Semantics
from ascertain.errors import InvalidSettings
from ascertain.ports import Kind

if TYPE_CHECKING:
    from ascertain.ports import AdapterFactory, Secrets
    from ascertain.settings import KindSettings

GROUP = "ascertain.adapters"

log = logging.getLogger("ascertain.worker")


def build_kind(
    name: str, chosen: KindSettings, secrets: Secrets, task_queue: str = names.TASK_QUEUE
) -> Kind:
    """The kind that a table describes, in the deployment of that task queue.

    Raises:
        InvalidSettings: Its adapter is unknown, or its options, semantics or measured contract are wrong.
    """
    adapter = _factory(name, chosen.adapter)(name, chosen.options, secrets)
    declared = adapter.semantics.model_dump(mode="json")
    try:
        semantics = Semantics.model_validate({**declared, **chosen.semantics})
    except ValidationError as error:
        words = faults(error, form=Semantics, at=f'kinds."{name}".semantics')
        raise InvalidSettings(words) from None
    if chosen.measured is not None:
        semantics = _within(name, semantics, _measured(name, chosen.adapter, chosen.measured))
    return Kind(name, semantics, chosen.policy, adapter, task_queue, chosen.digest)


def _factory(kind: str, adapter: str) -> AdapterFactory:
    if ":" in adapter:
        module, _, attribute = adapter.partition(":")
        try:
            return cast("AdapterFactory", getattr(import_module(module), attribute))
        except (ImportError, AttributeError) as error:
            raise InvalidSettings(
                f'kinds."{kind}".adapter: cannot load {adapter}: {error}; install its package, or name '
                "its folder in PYTHONPATH"
            ) from error
    found = entry_points(group=GROUP, name=adapter)
    if not found:
        known = sorted(entry.name for entry in entry_points(group=GROUP))
        raise InvalidSettings(
            f'kinds."{kind}".adapter: no adapter is named {adapter}{near(adapter, known)}; '
            f"there are: {', '.join(known)}; "
            "another one is there once its package is installed, and `module:factory` needs no name"
        )
    try:
        return cast("AdapterFactory", next(iter(found)).load())
    except ImportError as error:
        raise InvalidSettings(
            f'kinds."{kind}".adapter: {adapter} needs a package that is not installed ({error}); '
            f"for a built-in adapter: pip install 'ascertain[{adapter}]'"
        ) from error


def _measured(kind: str, adapter: str, file: str) -> Measured:
    """The measured contract, if it is one of this adapter that can be used."""
    where = f'kinds."{kind}".measured: {file}'
    try:
        measured = Measured.model_validate_json(Path(file).read_bytes())
    except OSError as error:
        raise InvalidSettings(f"{where} cannot be read: {error.strerror}") from error
    except ValidationError as error:
        raise InvalidSettings(f"{where} is no measured contract: {faults(error)}") from None
    if measured.adapter != adapter:
        raise InvalidSettings(
            f"{where} was measured of {measured.adapter}, not of {adapter}; name "
            "the adapter alike in both, and conform it again"
        )
    if measured.unfit:
        raise InvalidSettings(
            f"{where} says that the adapter failed {', '.join(measured.unfit)}: mend it, and measure "
            "it again with `ascertain conform`"
        )
    return measured


def _within(kind: str, declared: Semantics, measured: Measured) -> Semantics:
    semantics = limited(declared, measured)
    less = [name for name, value in semantics if value != getattr(declared, name)]
    if less:
        log.warning("kind %s declares more than was measured: limited %s", kind, ", ".join(less))
    return semantics
