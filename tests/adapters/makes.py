"""Stands for ffmpeg: tells how far it is as ffmpeg does, may leave a child behind, and makes a file."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

SLEEPS = [sys.executable, "-c", "import time; time.sleep(600)"]


def main(words: str, output: str, mark: str) -> None:
    for done in (1, 2, 3):
        sys.stderr.write(f"frame={done}\rout_time=00:00:0{done}\n")
    if words == "waits":
        child = subprocess.Popen(SLEEPS)
        Path(mark).write_text(f"{os.getpid()} {child.pid}")
        time.sleep(600)
    if words == "exit":
        sys.exit(f"{os.environ.get('TOKEN')} is wrong")
    if words.startswith("exit"):
        sys.exit(int(words.removeprefix("exit")))
    if words != "nothing":
        Path(output).write_text(words)


if __name__ == "__main__":
    main(*sys.argv[1:])
