"""Which peers are here: their packages, and a program that comes from elsewhere than PyPI."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
from importlib.metadata import version
from typing import TYPE_CHECKING, Final

from ascertain.errors import SetupError
from benchmarks.plan import Contender

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

RESTATE_SERVER: Final = "restate-server"
_MODULES: Final = ("dbos", "hypercorn", "procrastinate", "restate")
_PACKAGES: Final[Mapping[Contender, tuple[str, ...]]] = {
    Contender.DBOS: ("dbos",),
    Contender.DBOS50: ("dbos",),
    Contender.PROCRASTINATE: ("procrastinate", "psycopg"),
    Contender.RESTATE: ("restate-sdk", "hypercorn"),
}


def installed() -> bool:
    """Whether the packages of every peer are in this environment."""
    return all(importlib.util.find_spec(module) is not None for module in _MODULES)


def missing(contender: Contender) -> str | None:
    """Why an installed peer cannot be measured all the same, as a sentence."""
    if contender is Contender.RESTATE and shutil.which(RESTATE_SERVER) is None:
        return "its server is not here; `./run bench --peers` fetches it where there is npm"
    return None


def program(name: str) -> str:
    """Its place.

    Raises:
        SetupError: It is not on PATH.
    """
    found = shutil.which(name)
    if found is None:
        raise SetupError(f"{name} is not on PATH")
    return found


def versions(contenders: Collection[Contender]) -> dict[str, str]:
    """Of what the peers among them are made of, by name."""
    packages = [name for peer, names in _PACKAGES.items() if peer in contenders for name in names]
    found = {name: version(name) for name in dict.fromkeys(packages)}
    if Contender.RESTATE in contenders:
        found[RESTATE_SERVER] = _version(program(RESTATE_SERVER))
    return found


def _version(place: str) -> str:
    told = subprocess.run([place, "--version"], check=True, capture_output=True, text=True)
    return told.stdout.split()[-1]
