"""Where ``secret:NAME`` comes from: the environment, or one file a secret in a folder."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from ascertain.errors import MissingSecret

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
