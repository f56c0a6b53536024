"""``ascertain snapshot create``, ``verify`` and ``show``."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import typer
from pydantic import TypeAdapter

from ascertain.cli import output, place, wording
from ascertain.cli.listing import checked
from ascertain.cli.progress import Progress
from ascertain.contracts.snapshot import Scope
from ascertain.contracts.value import Partition
from ascertain.errors import InvalidSettings
from ascertain.snapshot import check, taking
from ascertain.snapshot.archive import Reader

if TYPE_CHECKING:
    from pathlib import Path

    from ascertain.contracts.snapshot import Manifest


async def create(
    target: Path, partition: str | None, config: Path | None, *, unresolved: bool, as_json: bool
) -> None:
    """Write an archive and print what is in it.

    Raises:
        LedgerDown: The ledger did not answer; there is no archive.
        TemporalDown: Temporal did not answer; there is no archive.
        BadParameter: The file cannot be written.
    """
    if partition is not None:
        checked(TypeAdapter(Partition), partition, "partition")
    scope = Scope(partition=partition, unresolved=unresolved)
    where = place.find(config)
    client = await where.client()
    progress = Progress()
    async with where.ledger() as ledger:
        try:
            taken = await taking.take(
                ledger,
                client,
                scope,
                target,
                taken_at=datetime.now(UTC),
                on_progress=progress.show,
            )
        except InvalidSettings as error:  # as of every file that a command line names
            raise typer.BadParameter(str(error)) from error
    progress.clear()
    if as_json:
        told = _document(taken.manifest)
        output.document({"file": str(taken.path), "sha256": taken.sha256, **told})
        return
    output.line(f"{taken.path} holds {_counted(taken.manifest)}.")
    if not (taken.manifest.counts["tasks"] or taken.manifest.counts["effects"]):
        output.note(f"Nothing of {_of(scope)} is known, so there is nothing in it to recover from.")
    output.line(f"sha256 {taken.sha256}")


def verify(source: Path, *, as_json: bool) -> None:
    """Check an archive.

    Raises:
        BrokenSnapshot: It is not what was written.
        BadParameter: There is no such file.
    """
    _exists(source)
    progress = Progress()
    manifest = check.verify(source, on_progress=progress.show)
    progress.clear()
    if as_json:
        output.document({"file": str(source), "whole": True, **_document(manifest)})
        return
    output.line(f"{source} is what was written: {_counted(manifest)}.")
    output.line("Every digest, every hash chain and every history was checked.")


def show(source: Path, *, as_json: bool) -> None:
    """Print what an archive holds.

    Raises:
        BrokenSnapshot: It cannot be read.
        BadParameter: There is no such file.
    """
    _exists(source)
    with Reader.open(source) as reader:
        manifest = reader.manifest
        standing = Counter(
            (trail.row.partition, trail.row.kind, trail.row.state.value, trail.row.error_class)
            for trail in check.trails(reader)
        )
    order = sorted(standing, key=lambda key: tuple(part or "" for part in key))
    if as_json:
        fields = ("partition", "kind", "state", "error_class")
        effects = [{**dict(zip(fields, key, strict=True)), "count": standing[key]} for key in order]
        output.document({"file": str(source), **_document(manifest), "effects": effects})
        return
    scope = manifest.scope
    whole = "what was unresolved" if scope.unresolved else "everything"
    output.line(f"Taken {wording.moment(manifest.taken_at)} of {whole} in {_of(scope)}.")
    output.line(f"It holds {_counted(manifest)}.")
    output.line(f"content {manifest.content}")
    output.table(
        ("partition", "kind", "state", "error class", "effects"),
        [(*(part or "" for part in key), str(standing[key])) for key in order],
    )


def _of(scope: Scope) -> str:
    return f"partition {scope.partition}" if scope.partition else "every partition"


def _exists(source: Path) -> None:
    if not source.is_file():
        raise typer.BadParameter(f"there is no file {source}")


def _counted(manifest: Manifest) -> str:
    return ", ".join(f"{count} {what.replace('_', ' ')}" for what, count in manifest.counts.items())


def _document(manifest: Manifest) -> dict[str, object]:
    return {**manifest.model_dump(mode="json", exclude={"files"}), "files": len(manifest.files)}
