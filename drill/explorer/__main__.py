"""``python -m drill.explorer``: the same as the command."""

from __future__ import annotations

import typer

from drill.explorer.command import register


def main() -> None:
    """Run the command."""
    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    register(app)
    app()


if __name__ == "__main__":
    main()
