"""``python -m benchmarks``: see ``benchmarks.command``."""

from __future__ import annotations

import typer

from benchmarks import command, memory_command, scale_command, takeover_command, tuning_command

app = typer.Typer(add_completion=False)
app.callback(invoke_without_command=True)(command.bench)
app.command("memory")(memory_command.memory)
app.command("scale")(scale_command.scale)
app.command("takeover")(takeover_command.takeover)
app.command("tuning")(tuning_command.tuning)

if __name__ == "__main__":
    app()
