"""The archive's form: a ZIP whose bytes depend on its content alone, with a manifest of digests.

::

    manifest.json                        what is in it, with SHA-256 of every file
    tasks.jsonl                          one run of a task per line
    effects.jsonl                        {"effect": row, "audit": [events]} per line
    gates.jsonl                          one gate per line
    histories/TASK_ID/RUN_ID.json        Temporal's own JSON; TASK_ID is percent-encoded
"""

from __future__ import annotations

import hashlib
import os
import zlib
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Final, Self
from urllib.parse import quote, unquote
from zipfile import ZIP_DEFLATED, BadZipFile, ZipFile, ZipInfo

from pydantic import ValidationError

from ascertain.contracts.fault import faults
from ascertain.contracts.snapshot import FileDigest, Manifest
from ascertain.errors import AscertainError

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Mapping
    from pathlib import Path

MANIFEST: Final = "manifest.json"
TASKS: Final = "tasks.jsonl"
EFFECTS: Final = "effects.jsonl"
GATES: Final = "gates.jsonl"
HISTORIES: Final = "histories/"

# The earliest time that a ZIP can hold; a real one would make equal content differ.
_NO_TIME: Final = (1980, 1, 1, 0, 0, 0)
_OWNER_ONLY: Final = 0o600
_CHUNK: Final = 1 << 20


class BrokenSnapshot(AscertainError):
    """The archive is not what was written: a file is missing, added or changed."""

    code = "broken_snapshot"
    exit_code = 8


class Writer:
    """Fills an archive file by file; each is hashed on its way."""

    def __init__(self, archive: ZipFile) -> None:
        self._archive = archive
        self.files: dict[str, FileDigest] = {}

    @contextmanager
    def file(self, name: str) -> Generator[_Hashed]:
        """One file of the archive; one at a time."""
        info = ZipInfo(name, _NO_TIME)
        info.compress_type = ZIP_DEFLATED
        info.external_attr = _OWNER_ONLY << 16
        with self._archive.open(info, "w", force_zip64=True) as opened:
            written = _Hashed(opened)
            yield written
        self.files[name] = FileDigest(bytes=written.length, sha256=written.digest.hexdigest())

    def add(self, name: str, content: bytes) -> None:
        """A whole file."""
        with self.file(name) as written:
            written.write(content)

    def close(self, manifest: Manifest) -> None:
        """The last file: the manifest of all others."""
        self.add(MANIFEST, manifest.model_dump_json(indent=2).encode() + b"\n")


class _Hashed:
    """A file of the archive that is hashed while it is written."""

    def __init__(self, opened: IO[bytes]) -> None:
        self._opened = opened
        self.digest = hashlib.sha256()
        self.length = 0

    def write(self, content: bytes) -> None:
        self._opened.write(content)
        self.digest.update(content)
        self.length += len(content)


@contextmanager
def writing(target: Path) -> Generator[Writer]:
    """Write an archive that stands under its name only once it is whole and on disk.

    Readable by its owner alone: it holds what tasks were asked for.
    """
    unfinished = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        descriptor = os.open(unfinished, os.O_RDWR | os.O_CREAT | os.O_TRUNC, _OWNER_ONLY)
        with os.fdopen(descriptor, "w+b") as opened:
            with ZipFile(opened, "w") as archive:
                yield Writer(archive)
            opened.flush()
            os.fsync(opened.fileno())
        unfinished.replace(target)
    finally:
        unfinished.unlink(missing_ok=True)


class Reader:
    """A finished archive."""

    def __init__(self, archive: ZipFile) -> None:
        self._archive = archive
        try:
            self.manifest = Manifest.model_validate_json(archive.read(MANIFEST))
        except KeyError:
            raise BrokenSnapshot("it has no manifest.json, so it is no snapshot") from None
        except ValidationError as error:
            raise BrokenSnapshot(f"its {MANIFEST} cannot be read: {faults(error)}") from None

    @classmethod
    @contextmanager
    def open(cls, source: Path) -> Generator[Self]:
        """Open an archive.

        Raises:
            BrokenSnapshot: It is no archive, or has no manifest.
        """
        try:
            with ZipFile(source) as archive:
                yield cls(archive)
        except (BadZipFile, EOFError, zlib.error) as error:
            raise BrokenSnapshot(f"{source} is no whole archive: {error}") from error

    def names(self) -> list[str]:
        """Every file but the manifest, as often as it stands there."""
        return [name for name in self._archive.namelist() if name != MANIFEST]

    def digest(self, name: str) -> FileDigest:
        """The digest of a file as it is now."""
        hashed = hashlib.sha256()
        length = 0
        with self._archive.open(name) as opened:
            while chunk := opened.read(_CHUNK):
                hashed.update(chunk)
                length += len(chunk)
        return FileDigest(bytes=length, sha256=hashed.hexdigest())

    def lines(self, name: str) -> Iterator[bytes]:
        """A file line by line.

        Raises:
            BrokenSnapshot: There is no such file.
        """
        if name not in self._archive.namelist():
            raise BrokenSnapshot(f"{name} is missing")
        with self._archive.open(name) as opened:
            yield from opened

    def histories(self) -> Iterator[tuple[str, str]]:
        """Every history: the workflow's id and Temporal's JSON, for a replay offline."""
        for name in self.names():
            if name.startswith(HISTORIES):
                yield unquote(name.split("/")[1]), self._archive.read(name).decode()


def history_name(task_id: str, run_id: str) -> str:
    """Where the history of one run stands; a task's id may hold what a file's name may not."""
    return f"{HISTORIES}{quote(task_id, safe='')}/{run_id}.json"


def content_digest(files: Mapping[str, FileDigest]) -> str:
    """One digest over all files, whatever their order."""
    told = "".join(f"{files[name].sha256}  {name}\n" for name in sorted(files))
    return hashlib.sha256(told.encode()).hexdigest()
