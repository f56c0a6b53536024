"""Where ``secret:NAME`` comes from: the environment, or one file a secret in a folder."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ascertain.errors import MissingSecret

if TYPE_CHECKING:
    from collections.abc import Iterable

FOLDER_VARIABLE = "ASCERTAIN_SECRETS"


@dataclass(frozen=True, slots=True)
class ProcessSecrets:
    """``ASCERTAIN_SECRET_<NAME>``, or else the file ``$ASCERTAIN_SECRETS/<NAME>``."""

    def reveal(self, name: str) -> str:
        """The secret, without a trailing line end.

        Raises:
            MissingSecret: It is in neither place, or its file cannot be read.
        """
        value = _found(name)
        if value is None:
            raise MissingSecret(
                f"secret {name} is missing: set ASCERTAIN_SECRET_{name}, or put it into a file {name} in "
                f"the folder that {FOLDER_VARIABLE} names"
            )
        return value

    def require(self, names: Iterable[str]) -> None:
        """See that all of them are here.

        Raises:
            MissingSecret: Some are not; the message names each of these. Or the file of one cannot be read.
        """
        missing = [name for name in sorted(set(names)) if _found(name) is None]
        if missing:
            variables = ", ".join(f"ASCERTAIN_SECRET_{name}" for name in missing)
            raise MissingSecret(
                f"secrets that the kinds of this worker name are missing: {', '.join(missing)}; set "
                f"{variables}, or put each into a file of its name in the folder that {FOLDER_VARIABLE} names"
            )


def _found(name: str) -> str | None:
    value = os.environ.get(f"ASCERTAIN_SECRET_{name}")
    folder = os.environ.get(FOLDER_VARIABLE)
    if value is not None or folder is None or not name.replace("_", "").isalnum():
        return value
    return _content(name, Path(folder) / name)


def _content(name: str, file: Path) -> str | None:
    """What a secret's file holds; None if there is none."""
    try:
        return file.read_text("utf-8").rstrip("\r\n")
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        why = f"cannot be read: {error.strerror}"
    except UnicodeDecodeError:
        why = "is not UTF-8"
    # Not in the handler: the error of a decoder holds the bytes.
    raise MissingSecret(
        f"secret {name}: its file {file} {why}; let it be text that this process may read"
    )
