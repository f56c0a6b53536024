"""A long program: goes on until a file is there, and then makes its own."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path


def main(output: str, folder: Path) -> None:
    (folder / f"{os.getpid()}.run").write_text(str(os.getpid()))
    while not (folder / "go").exists():
        sys.stdout.write("out_time=00:00:01\n")
        sys.stdout.flush()
        time.sleep(0.05)
    Path(output).write_text("moving pictures")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
