"""From a deployment file to kinds, and what is said when that is not possible."""

from __future__ import annotations

import sys

import pytest

from ascertain.errors import InvalidSettings
from ascertain.settings import Settings
from tests.adapters.calls import GivenSecrets
from workers.registry import build_kinds


def settings(adapter: str, **options: object) -> Settings:
    return Settings.model_validate({"kinds": {"k": {"adapter": adapter, "options": options}}})


def test_a_package_that_an_adapter_needs_and_that_is_missing_is_named_with_the_way_to_install_it(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.delitem(sys.modules, "ascertain.adapters.smtp", raising=False)
    monkeypatch.setitem(sys.modules, "aiosmtplib", None)
    with pytest.raises(InvalidSettings, match=r"aiosmtplib.*pip install 'ascertain\[smtp\]'"):
        build_kinds(settings("smtp"), GivenSecrets())


def test_an_unknown_adapter_is_told_with_those_that_there_are():
    with pytest.raises(InvalidSettings, match=r"no adapter is named fax; there are: .*smtp"):
        build_kinds(settings("fax"), GivenSecrets())
