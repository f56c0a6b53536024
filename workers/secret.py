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
            MissingSecret: It is in neither place.
        """
        value = os.environ.get(f"ASCERTAIN_SECRET_{name}")
        if value is not None:
            return value
        folder = os.environ.get(FOLDER_VARIABLE)
        if folder is not None and name.replace("_", "").isalnum():
            file = Path(folder) / name
            if file.is_file():
                return file.read_text("utf-8").rstrip("\r\n")
        raise MissingSecret(
            f"secret {name} is missing: set ASCERTAIN_SECRET_{name}, or put it into a file {name} in "
            f"the folder that {FOLDER_VARIABLE} names"
        )

    def require(self, names: Iterable[str]) -> None:
        """See that all of them are here.

        Raises:
            MissingSecret: Some are not; the message names each of these.
        """
        missing = [name for name in sorted(set(names)) if not self._has(name)]
        if missing:
            variables = ", ".join(f"ASCERTAIN_SECRET_{name}" for name in missing)
            raise MissingSecret(
                f"secrets that the kinds of this worker name are missing: {', '.join(missing)}; set "
                f"{variables}, or put each into a file of its name in the folder that {FOLDER_VARIABLE} names"
            )

    def _has(self, name: str) -> bool:
        try:
            self.reveal(name)
        except MissingSecret:
            return False
        return True
