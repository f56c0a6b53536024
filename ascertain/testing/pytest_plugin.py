"""For pytest: the fixture ``conform``, there wherever Ascertain is installed.

::

    def test_my_adapter_conforms(conform):
        conform(letters)  # a Trial, or a function that opens one
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from ascertain.testing.conformance.report import Report


@pytest.fixture
def conform() -> Callable[[object], Report]:
    """Tries an adapter with the conformance kit, and fails the test if the adapter fails it.

    Gives the report. For a test that is a plain function: the kit runs a loop of its own.
    """
    # Costs what a test run without this fixture need not pay.
    from ascertain.testing.conformance.kit import conform as kit  # noqa: PLC0415

    def tried(given: object) -> Report:
        report = asyncio.run(kit(given))
        if not report.ok:
            pytest.fail(report.text(), pytrace=False)
        return report

    return tried
