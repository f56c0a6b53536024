from __future__ import annotations

import sys
from types import ModuleType

import pytest

from ascertain.errors import InvalidSettings
from drill.against import read
from drill.kind import OutsideClass, options


@pytest.fixture
def declared(monkeypatch):
    """Makes a module that declares this kind."""

    def make(kind):
        module = ModuleType("their_adapter")
        if kind is not None:
            module.kind = kind
        monkeypatch.setitem(sys.modules, "their_adapter", module)
        return "their_adapter"

    return make


@pytest.mark.parametrize(
    ("lookup", "semantics", "outside"),
    [
        (True, {"idempotent_for": 3600}, OutsideClass.ASKED_AND_KEYED),
        (True, {}, OutsideClass.ASKED),
        (False, {"idempotent_for": 3600}, OutsideClass.KEYED),
        (False, {}, OutsideClass.NEITHER),
    ],
)
def test_the_class_is_that_of_the_declared_semantics(declared, lookup, semantics, outside):
    def kind(url):
        chosen = options(url, lookup=lookup)
        return {"adapter": "http", "options": chosen, "semantics": semantics}

    assert read(declared(kind)).outside is outside


@pytest.mark.parametrize("kind", [None, lambda url: {"adaptor": url}])
def test_a_module_that_declares_no_kind_is_refused_with_its_name(declared, kind):
    with pytest.raises(InvalidSettings, match="--against their_adapter"):
        read(declared(kind))
