"""Exit codes, and the one sentence that every error is told in."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from contextlib import contextmanager
from typing import ClassVar, Final, cast

import typer

from ascertain.cli import output
from ascertain.cli.text import as_typed, plain
from ascertain.errors import BY_ITSELF, AscertainError, CommandRefused

UNEXPECTED: Final = 1
USAGE: Final = 2
NOT_DONE: Final = 8
PARTIAL: Final = 11
DISAGREES: Final = 13
NOT_COMPARED: Final = 14
INTERRUPTED: Final = 130
PIPE_CLOSED: Final = 141
INTERRUPTION: Final = "interrupted"

_BY_HAND: Final = "; nothing is known to be changed: give the same command again"

EXIT_CODES: Final = {
    0: "It worked. For `result` and `--wait`: the task is `DONE`, every step exists outside.",
    UNEXPECTED: "An error that nobody foresaw; `--debug` shows where it comes from. "
    "For `conform`, `demo`, `drill` and `explore`: what should have held did not. "
    "Or standard output cannot be written; what was done before stands.",
    USAGE: "The command line or the task is wrong. Nothing of it was stored.",
    3: "The same id was used before with other content; the first content stands.",
    4: "A person's command was not applied; the message says what stands in its way.",
    5: "There is no such task or effect.",
    6: "A part cannot be reached now: the Temporal server, a worker or the ledger. Try again later.",
    7: "The deployment is wrong (settings, secrets, schema); trying again will not help.",
    NOT_DONE: "The task ended, but not `DONE`. For `snapshot`: the archive is not what was written.",
    9: "The task is not over within the time given; it goes on.",
    10: "A person's command is on record and not applied: a second person must give the same one.",
    PARTIAL: "Of many lines some are started and some were refused; each refused line is named.",
    12: "An audit trail is not what was written.",
    DISAGREES: "What the outside lists and what the ledger knows are not the same.",
    NOT_COMPARED: "Nothing was compared: of no kind that was asked for could a census be taken.",
    INTERRUPTED: "Interrupted by Ctrl-C. What was begun goes on, but for servers that the command itself "
    "started; a command that waited, or carried many lines, says what stands and how to go on. Of a request "
    "whose answer had not come it is not known whether it counts: look, or give it again, which is safe.",
    PIPE_CLOSED: "The reader of standard output went away.",
}


class NotOver(AscertainError):
    """The task is not over within the time that was given; it goes on."""

    code: ClassVar[str] = "not_over"
    exit_code: ClassVar[int] = 9


class Declined(CommandRefused):
    """A takeover command was answered, and not with yes.

    Attributes:
        details: The whole answer.
    """

    def __init__(self, message: str, details: dict[str, object]) -> None:
        super().__init__(message)
        self.details = details


class InDoubt(Declined):
    """A takeover command may be applied or not: the answer that would have told was lost."""

    code: ClassVar[str] = "command_in_doubt"
    exit_code: ClassVar[int] = 6


class AwaitsSecond(Declined):
    """A takeover command is on record; the same command of a second person applies it."""

    code: ClassVar[str] = "awaits_second_person"
    exit_code: ClassVar[int] = 10


@contextmanager
def leaving(what: str, *errors: type[Exception]) -> Generator[None]:
    """Say what becomes of what was begun, where Ctrl-C ends the command before it.

    A time limit ends what stands in it by the same cancellation, so it belongs inside and not around this.

    Args:
        what: In words.
        errors: Those that end the command before it too.
    """
    ends: tuple[type[BaseException], ...] = (asyncio.CancelledError, *errors)
    try:
        yield
    except ends:
        output.note(what)
        raise


def report(error: BaseException, *, as_json: bool) -> int:
    """Tell an error and give its exit code.

    Args:
        error: What stopped the command.
        as_json: Also print it as the command's one JSON document.
    """
    cause = _first(error)
    if isinstance(cause, typer.Abort | KeyboardInterrupt):
        output.note(INTERRUPTION)
        return INTERRUPTED
    code, exit_code, message = _told(cause)
    output.note(f"ascertain: {message}")
    if as_json:
        told: dict[str, object] = {"code": code, "message": message, "exit_code": exit_code}
        if isinstance(cause, Declined):
            told["answer"] = cause.details
        try:
            output.document({"error": told})
            output.flush()
        except output.PipeClosed:
            return PIPE_CLOSED
        except output.Unwritable:  # the error itself is told, and says more
            return exit_code
    return exit_code


def words_of(error: AscertainError) -> str:
    """The sentence of one of our own errors, fit for a terminal."""
    return as_typed("\n".join(map(plain, by_hand(str(error)).splitlines())))


def by_hand(words: str) -> str:
    """An error's words for a person at a command, which nobody but that person gives again."""
    return words.replace(BY_ITSELF, _BY_HAND)


def asked_once(error: AscertainError) -> str:
    """The words of an error that a look met: a command looks once, and trying again is a worker's word."""
    return str(error).replace(BY_ITSELF, "")


def _told(error: BaseException) -> tuple[str, int, str]:
    if isinstance(error, AscertainError):
        return error.code, error.exit_code, words_of(error)
    if isinstance(error, typer.TyperException):
        context = getattr(error, "ctx", None)
        path = context.command_path if context is not None else "ascertain"
        message = plain(error.format_message()).rstrip(".")
        return "usage", USAGE, as_typed(f"{message}. See `{path} --help`")
    what = plain(str(error)) or "no message"
    message = f"unexpected {type(error).__qualname__}: {what} (--debug shows where it comes from)"
    return "unexpected", UNEXPECTED, message


def _first(error: BaseException) -> BaseException:
    """The first of several errors that ended concurrent work."""
    while isinstance(error, BaseExceptionGroup):
        error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
    return error
