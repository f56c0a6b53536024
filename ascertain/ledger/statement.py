"""Named statements in ``sql/*.sql``, read once, so that no SQL stands in Python."""

from __future__ import annotations

import re
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

LEDGER: Final = "ascertain.ledger.sql"
SERVICE: Final = "ascertain.service.sql"

_NAME: Final = re.compile(r"^-- name: (\w+)$", re.MULTILINE)


@cache
def statements(package: str = LEDGER) -> Mapping[str, str]:
    """Every named statement of one database: name to text.

    Raises:
        ValueError: Two statements have one name.
    """
    found: dict[str, str] = {}
    for file in sorted(resources.files(package).iterdir(), key=lambda file: file.name):
        if not file.name.endswith(".sql"):
            continue
        _, *parts = _NAME.split(file.read_text("utf-8"))
        for name, text in zip(parts[::2], parts[1::2], strict=True):
            if name in found:
                raise ValueError(f"{file.name}: a statement named {name} exists already")
            found[name] = text.strip()
    return found


def statement(name: str, package: str = LEDGER) -> str:
    """The text of one statement.

    Raises:
        KeyError: There is none of that name.
    """
    return statements(package)[name]
