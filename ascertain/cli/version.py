"""``ascertain version``."""

from __future__ import annotations

import platform
from importlib.metadata import version
from typing import Final

from ascertain.cli import output

_SHOWN: Final = ("ascertain", "temporalio", "asyncpg", "pydantic")


def version_of(package: str) -> str:
    """The version of an installed package."""
    return version(package)


def show(*, as_json: bool) -> None:
    """Print the versions that a report of a fault needs."""
    found = {name: version_of(name) for name in _SHOWN} | {"python": platform.python_version()}
    if as_json:
        output.document(dict(found))
    else:
        output.lines(f"{name:<12}{number}" for name, number in found.items())
