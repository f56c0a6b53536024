"""An adapter of somebody else's, drilled in the place of ours.

Its module has one function::

    def kind(url: str) -> dict:
        return {
            "adapter": "my_adapters.bank:create",
            "options": {"base_url": url},
            "semantics": {"in_flight_max": 1},
        }

``url`` is the toy outside (``ascertain.testing.outside``); the answer is a table as in the deployment file.
The adapter must name its effect by ``reference`` there, and by ``Idempotency-Key`` in each request.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, cast

from pydantic import ValidationError

from ascertain.errors import InvalidSettings
from ascertain.settings import KindSettings, Settings
from drill.kind import OutsideClass
from workers.registry import build_kinds
from workers.secret import ProcessSecrets

if TYPE_CHECKING:
    from ascertain.contracts.semantics import Semantics
    from ascertain.contracts.value import JsonObject

_NAME = "against"
_NOWHERE = "http://127.0.0.1:9"


@dataclass(frozen=True, slots=True)
class Against:
    """A kind that somebody declared.

    Attributes:
        kind: Its table in the deployment file, given the outside's address.
        outside: The class of outside that its semantics declare.
    """

    kind: Callable[[str], JsonObject]
    outside: OutsideClass


def read(module: str) -> Against:
    """Load a module and see what it declares.

    Raises:
        InvalidSettings: It cannot be loaded, or what it declares is no kind; says why.
    """
    try:
        given = cast("Callable[[str], Mapping[str, object]]", import_module(module).kind)
    except (ImportError, AttributeError) as error:
        raise InvalidSettings(
            f"--against {module}: it needs a function kind(url): {error}"
        ) from error

    def kind(url: str) -> JsonObject:
        return cast("JsonObject", dict(given(url)))

    try:
        settings = Settings(kinds={_NAME: KindSettings.model_validate(kind(_NOWHERE))})
    except ValidationError as error:
        fault = error.errors(include_input=False, include_url=False)[0]
        raise InvalidSettings(f"--against {module}: kind: {fault['loc']}: {fault['msg']}") from None
    semantics = build_kinds(settings, ProcessSecrets())[_NAME].semantics
    return Against(kind, class_of(semantics))


def class_of(semantics: Semantics) -> OutsideClass:
    """The class of outside that semantics declare."""
    if semantics.lookup is not None:
        keyed = semantics.idempotent_for is not None
        return OutsideClass.ASKED_AND_KEYED if keyed else OutsideClass.ASKED
    return OutsideClass.KEYED if semantics.idempotent_for is not None else OutsideClass.NEITHER
