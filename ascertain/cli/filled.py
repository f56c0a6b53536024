"""What is typed says something: an empty word is that of an unset variable of a shell, and is refused."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

import typer
from typer.core import TyperArgument, TyperGroup

if TYPE_CHECKING:
    from collections.abc import Callable

EMPTY: Final = "it is empty, as an unset variable is"
# Streams were begun without a name before, and are still looked at, paused and resumed.
_MAY_BE_EMPTY: Final = "STREAM"


class FilledGroup(TyperGroup):
    """Commands of which no argument and no option, at whatever depth, takes what is empty."""

    def __init__(self, **made_of: Any) -> None:  # noqa: ANN401 - whatever typer makes a group of
        super().__init__(**made_of)
        _refuse_what_is_empty(self)


def _refuse_what_is_empty(group: TyperGroup) -> None:
    for command in group.commands.values():
        for param in command.params:
            if not (isinstance(param, TyperArgument) and param.metavar == _MAY_BE_EMPTY):
                # Before it is made a path, of which an empty one is the working directory.
                checked = partial(_filled, param.process_value)
                param.process_value = checked  # type: ignore[method-assign]  # typer has no hook before
        if isinstance(command, TyperGroup):
            _refuse_what_is_empty(command)


def _filled(
    process: Callable[[typer.Context, object], object],
    context: typer.Context,
    value: list[str] | str | float | None,
) -> object:
    words = value if isinstance(value, list) else [value]
    if any(isinstance(word, str) and not word.strip() for word in words):
        raise typer.BadParameter(EMPTY)
    return process(context, value)
