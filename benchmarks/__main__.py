"""``python -m benchmarks``: see ``benchmarks.command``."""

from __future__ import annotations

import typer

from benchmarks.command import bench

if __name__ == "__main__":
    typer.run(bench)
