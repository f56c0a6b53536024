"""Check that an archive is what was written, and that every audit trail in it is whole."""

from __future__ import annotations

import base64
import json
from collections import Counter
from typing import TYPE_CHECKING

from pydantic import ValidationError
from temporalio.client import WorkflowHistory

from ascertain.contracts.effect import AuditEvent, EffectRow
from ascertain.contracts.fault import faults
from ascertain.errors import BrokenChain
from ascertain.ledger.audit import verify_chain
from ascertain.ports import Trail
from ascertain.snapshot import archive
from ascertain.snapshot.archive import BrokenSnapshot, Reader

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from ascertain.contracts.snapshot import Manifest


def verify(source: Path, *, on_progress: Callable[[str], None]) -> Manifest:
    """Check digests, counts, every audit trail's chain, and that every history can be read.

    Raises:
        BrokenSnapshot: At the first thing that does not fit; the message names it.
    """
    with Reader.open(source) as reader:
        _digests(reader)
        counted = Counter(effects=0, audit_events=0, histories=0)
        for trail in trails(reader):
            _chain(trail)
            counted.update(effects=1, audit_events=len(trail.events))
            on_progress(f"{counted['effects']} trails checked")
        for task_id, history in reader.histories():
            _history(task_id, history)
            counted.update(histories=1)
            on_progress(f"{counted['histories']} histories read")
        counted["gates"] = sum(1 for _ in reader.lines(archive.GATES))
        runs = [json.loads(line)["task_id"] for line in reader.lines(archive.TASKS)]
        # An archive of a release that counted no runs counts them as tasks.
        by_task = "runs" in reader.manifest.counts
        counted.update(runs=len(runs), tasks=len(set(runs)) if by_task else len(runs))
        for what, count in reader.manifest.counts.items():
            if counted[what] != count:
                told = f"the manifest counts {count} {what}, the archive holds {counted[what]}"
                raise BrokenSnapshot(told)
        return reader.manifest


def trails(reader: Reader) -> Iterator[Trail]:
    """Every effect of an archive with its audit trail.

    Raises:
        BrokenSnapshot: A line is no effect.
    """
    for line in reader.lines(archive.EFFECTS):
        yield _trail(line, reader.manifest)


def _digests(reader: Reader) -> None:
    stated = reader.manifest.files
    present = Counter(reader.names())
    for name in sorted({*stated, *present}):
        if name not in stated or present[name] != 1:
            what = "is missing" if not present[name] else "is not in the manifest"
            raise BrokenSnapshot(f"{name} {'stands there twice' if present[name] > 1 else what}")
        if reader.digest(name) != stated[name]:
            raise BrokenSnapshot(f"{name} was changed: its digest is not the manifest's")
    if archive.content_digest(stated) != reader.manifest.content:
        raise BrokenSnapshot("the manifest was changed: its content digest does not fit its files")


def _trail(line: bytes, manifest: Manifest) -> Trail:
    try:
        told = json.loads(line)
        row = told["effect"]
        row = {**row, "frozen": base64.b64decode(row["frozen"]), "now": manifest.taken_at}
        events = tuple(AuditEvent.model_validate(event) for event in told["audit"])
        return Trail(EffectRow.model_validate(row), events)
    except (KeyError, TypeError, ValueError) as error:
        why = faults(error) if isinstance(error, ValidationError) else error
        raise BrokenSnapshot(f"a line of {archive.EFFECTS} is no effect: {why}") from error


def _chain(trail: Trail) -> None:
    try:
        verify_chain(trail.events, trail.row)
    except BrokenChain as error:
        raise BrokenSnapshot(str(error)) from error


def _history(task_id: str, history: str) -> None:
    try:
        WorkflowHistory.from_json(task_id, history)
    except Exception as error:  # whatever the parser thinks of foreign bytes
        raise BrokenSnapshot(f"the history of {task_id} cannot be read: {error}") from error
