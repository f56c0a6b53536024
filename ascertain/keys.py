"""Names and fingerprints of effects: pure, stable over restarts and releases.

Canonical JSON is RFC 8785. What it makes of numbers and text is the rule of what is "the same":
``1``, ``1.0`` and ``1e0`` are the same number and ``-0.0`` is ``0``; composed and decomposed text
differ; the order of fields does not matter; NaN, infinities and integers beyond 2**53 are refused.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from typing import TYPE_CHECKING, Final

import rfc8785

from ascertain.contracts.effect import Effect
from ascertain.errors import InvalidTask

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pydantic import JsonValue

    from ascertain.contracts.continuation import Progress
    from ascertain.contracts.task import Step, Task

UNDO_SUFFIX = "~undo"
# What Python's own writer, which is ten times as fast, may write otherwise: fractions, exponents and long
# numbers; and names whose order depends on how text is counted, which need characters beyond ASCII.
_MAY_DIFFER: Final = re.compile(r"[0-9][.e]|[0-9]{16}|NaN|Infinity|[^\x00-\x7f]")
_plain: Final = json.JSONEncoder(
    ensure_ascii=False, check_circular=False, sort_keys=True, separators=(",", ":")
).encode


def canonical(value: JsonValue) -> bytes:
    """The canonical JSON of a value.

    Raises:
        InvalidTask: NaN, an infinity, an integer beyond 2**53, or text that is not valid Unicode.
    """
    try:
        written = _plain(value)
        return rfc8785.dumps(value) if _MAY_DIFFER.search(written) else written.encode("ascii")
    except (rfc8785.CanonicalizationError, UnicodeEncodeError, RecursionError) as error:
        raise InvalidTask(f"the input has no canonical JSON: {error}") from error


def fingerprint(kind: str, content: Mapping[str, JsonValue]) -> str:
    """SHA-256, hexadecimal, of the canonical JSON of an effect's kind and input."""
    return hashlib.sha256(canonical({"kind": kind, "input": dict(content)})).hexdigest()


def effect_id(namespace: str, task_id: str, step: str, revision: int) -> str:
    """The id of an effect: 36 characters of ``[a-z0-9-]``, the same wherever it is computed.

    Fit for an HTTP header, an object key and a mail Message-ID. 160 bits of SHA-256.
    """
    digest = hashlib.sha256(canonical([namespace, task_id, step, revision])).digest()
    return "ef1-" + base64.b32encode(digest[:20]).decode("ascii").lower()


def effect_of(namespace: str, task: Task, step: Step) -> Effect:
    """The effect of one of a task's steps, as it is before any amendment."""
    return Effect(
        effect_id=effect_id(namespace, task.task_id, step.name, 0),
        task_id=task.task_id,
        step=step.name,
        kind=step.kind,
        partition=task.partition,
        message_id=task.message_id,
        input=step.input,
        task_fingerprint=task_fingerprint(task),
    )


def task_fingerprint(task: Task) -> str:
    """SHA-256, hexadecimal, of what makes two tasks the same: all but the message that asked for it."""
    content = task.model_dump(mode="json", exclude={"message_id"})
    if task.deadline is None:  # tasks had none when the first fingerprints were stored
        del content["deadline"]
    return hashlib.sha256(canonical(content)).hexdigest()


def undo_step(step: str) -> str:
    """The step name of the effect that takes ``step`` back; no step of a task can have this name."""
    return step + UNDO_SUFFIX


def ordered_back(progress: Progress) -> list[str]:
    """The steps that persons ordered to be taken back, of those too that are by now."""
    if not progress.given_up:
        return []
    undone = (done.step.removesuffix(UNDO_SUFFIX) for done in progress.undone)
    return [*dict.fromkeys((*undone, *progress.taking_back))]
