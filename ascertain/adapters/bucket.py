"""Where objects are put if they are not there yet: S3, GCS, Azure and local folders, through obstore.

Two writers of one name cannot both win, whatever time passes between them: the store itself refuses the
second. Everything here rests on that.

Source:
    obstore's ``put`` with ``mode="create"`` (S3 ``If-None-Match``, GCS generation 0, Azure ``If-None-Match``,
    a hard link in a local folder); the stores' own pages on strong read-after-write consistency.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
import secrets
import shutil
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, cast
from urllib.parse import urlsplit

import obstore
from obstore import exceptions as said
from obstore.store import LocalStore, from_url
from pydantic import Field, StringConstraints

from ascertain.adapters import saying
from ascertain.adapters.reach import REACH
from ascertain.contracts.effect import Receipt
from ascertain.contracts.finding import Differs, Unknowable
from ascertain.contracts.value import StrictValue
from ascertain.errors import InvalidSettings, LookupDown, MissingSecret

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from datetime import datetime

    from obstore.store import ObjectStore, S3Config

    from ascertain.contracts.outcome import NotDone, Settled, Unknown
    from ascertain.contracts.value import JsonObject
    from ascertain.ports import Secrets

# By what obstore calls it; the first that is there counts.
_ENDPOINTS: Final = tuple(
    f"{brand}{name}"
    for name in ("endpoint_url_s3", "endpoint", "endpoint_url")
    for brand in ("aws_", "azure_storage_", "azure_", "")
)
_GOOGLE: Final = "https://storage.googleapis.com"
# Where an object says whose it is; folders cannot keep it.
EFFECT_ID: Final = "ascertain-effect-id"

_SECRET: Final = "secret:"  # noqa: S105 - the mark of one
_NO_SUCH_PLACE: Final = re.compile(
    r"NoSuchBucket|ContainerNotFound|specified bucket does not exist"
)


class BucketForm(StrictValue):
    """Where objects are kept, as a deployment file says it.

    Attributes:
        url: ``s3://bucket/prefix``, ``gs://bucket/prefix``, ``az://container/prefix`` or ``file:///folder``.
        config: The store's own settings, as obstore names them: ``endpoint``, ``region``,
            ``access_key_id = "secret:NAME"``. What is not set comes from the store's environment.
        allow_http: Also without TLS.
    """

    url: Annotated[str, StringConstraints(pattern=r"^(s3|gs|az|file)://\S+$")]
    config: dict[str, str] = Field(default_factory=dict)
    allow_http: bool = False
    timeout: timedelta = timedelta(seconds=4.5)


@dataclass(frozen=True, slots=True)
class Kept:
    """An object that is there.

    Attributes:
        effect_id: Whose it says it is; None where the store cannot tell.
        content: None if it was not read because its size told enough.
    """

    key: str
    size: int
    etag: str | None
    kept_at: datetime
    effect_id: str | None
    content: bytes | None

    @property
    def sha256(self) -> str | None:
        """Hexadecimal, of what was read."""
        return None if self.content is None else hashlib.sha256(self.content).hexdigest()

    def receipt(self) -> Receipt:
        """As evidence that it exists."""
        body: JsonObject = {"key": self.key, "size": self.size, "etag": self.etag}
        return Receipt(
            external_id=self.key, happened_at=self.kept_at, body=body, digest=self.sha256
        )

    def not_of(self, effect_id: str) -> Differs | Unknowable | None:
        """What a lookup says of it unless it is this effect's own; None if it is.

        A folder keeps no mark: there a file is an effect's only if its name holds the effect's id, for two
        effects can share any other name, and one file proves at most one of them.
        """
        if self.effect_id == effect_id or (self.effect_id is None and effect_id in self.key):
            return None
        if self.effect_id is None:
            return Unknowable(detail=f"{self.key} is there, and nothing in it names this effect")
        return Differs(
            external_id=self.key,
            expected={"effect_id": effect_id},
            found={"effect_id": self.effect_id},
        )


def _never(size: int) -> bool:
    del size
    return False


class Bucket:
    """Puts objects that are not there yet, once each, and looks at those that are.

    Opened when first used, so that only the processes that use it need its secrets.

    Raises:
        InvalidSettings: The address or a setting is none that the store knows.
    """

    def __init__(self, kind: str, form: BucketForm, reveals: Secrets) -> None:
        self._form = form
        self._secrets = reveals
        self._store: ObjectStore | None = None
        self._reach = REACH.get()
        self._host, self._port = _place(kind, form) if self._reach else ("", 0)
        try:
            _open(form, {name: _masked(value) for name, value in form.config.items()})
        except BaseException as error:
            # obstore ends some wrong settings with a panic, which is no Exception.
            if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
                raise
            first = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise InvalidSettings(f'kinds."{kind}".options: {form.url}: {first}') from None

    async def put(
        self,
        key: str,
        content: bytes | Path,
        *,
        effect_id: str,
        content_type: str,
        sha256: str,
        permitted: Callable[[], Awaitable[None]],
    ) -> Settled | NotDone | Unknown:
        """Put one object, if there is none of this name. One wire request; a folder gets a hard link.

        Args:
            key: Its name.
            content: Its bytes, or the file that holds them.
            effect_id: Whose it is.
            content_type: Kept beside it where the store can.
            sha256: Of the content, for the receipt.
            permitted: Awaited as the last line before the irreversible step; what it raises passes.
        """
        try:
            await self._check_reach()
        except OSError as error:
            return saying.unsent("not_reached", f"{self._form.url}: {error.strerror or error}")
        try:
            store = self._opened()
            if isinstance(store, LocalStore) and isinstance(content, Path):
                return await _link(Path(str(store.prefix)), key, content, sha256, permitted)
            attributes = None
            if not isinstance(store, LocalStore):
                attributes = {"Content-Type": content_type, EFFECT_ID: effect_id}
            await permitted()
            put = await obstore.put_async(
                store, key, content, mode="create", attributes=attributes, use_multipart=False
            )
        except (said.AlreadyExistsError, said.PreconditionError):
            return saying.doubted("exists", f"{key} is there already: look it up and compare")
        except (said.UnauthenticatedError, said.PermissionDeniedError, PermissionError):
            return saying.turned_away("not_permitted", f"{self._form.url} does not let us write")
        except FileNotFoundError:
            return saying.turned_away("no_such_place", f"{self._form.url} does not exist")
        except MissingSecret as error:
            return saying.unsent(error.code, str(error))
        except (said.BaseError, OSError, ValueError) as error:
            word = type(error).__name__
            return saying.lost("no_answer", f"left, no complete answer ({word}, {self._form.url})")
        body: JsonObject = {"key": key, "etag": put["e_tag"]}
        receipt = Receipt(external_id=key, body=body, digest=sha256)
        return saying.settled(receipt, f"{key} was put")

    async def find(self, key: str, *, wanted: Callable[[int], bool] = _never) -> Kept | None:
        """The object of this name, or None.

        Args:
            key: Its name.
            wanted: Whether its content is read, by its size in bytes.

        Raises:
            LookupDown: The store cannot be asked now.
        """
        try:
            await self._check_reach()
            got = await obstore.get_async(self._opened(), key)
            content = bytes(await got.bytes_async()) if wanted(got.meta["size"]) else None
        except FileNotFoundError as error:
            if _NO_SUCH_PLACE.search(str(error)):
                raise LookupDown(f"{self._form.url} does not exist") from error
            return None
        except MissingSecret as error:
            raise LookupDown(str(error)) from error
        except (said.BaseError, OSError, ValueError) as error:
            word = type(error).__name__
            raise LookupDown(f"{self._form.url} cannot be read ({word})") from error
        return Kept(
            key=key,
            size=got.meta["size"],
            etag=got.meta["e_tag"],
            kept_at=got.meta["last_modified"],
            effect_id=got.attributes.get(EFFECT_ID),
            content=content,
        )

    async def _check_reach(self) -> None:
        """Look at where the store's host leads to; its library then resolves it once more by itself.

        Raises:
            OSError: It leads where the deployment's list does not allow; nothing has left.
        """
        if self._reach is not None and self._host:
            await self._reach.resolve(self._host, self._port)

    def _opened(self) -> ObjectStore:
        if self._store is None:
            config = {name: _revealed(v, self._secrets) for name, v in self._form.config.items()}
            self._store = _open(self._form, config)
        return self._store


async def _link(
    folder: Path, key: str, file: Path, sha256: str, permitted: Callable[[], Awaitable[None]]
) -> Settled | NotDone | Unknown:
    """Publish a file of any size in a folder: a copy beside its place first, then one atomic step."""
    target = folder / key
    part = target.with_name(f".{target.name}.{secrets.token_hex(6)}.part")
    try:
        await asyncio.to_thread(_copied, file, part)
        await permitted()
        await asyncio.to_thread(os.link, part, target)
    except FileExistsError:
        return saying.doubted("exists", f"{key} is there already: look it up and compare")
    finally:
        part.unlink(missing_ok=True)
    receipt = Receipt(external_id=key, body={"key": key}, digest=sha256)
    return saying.settled(receipt, f"{key} was published")


def _copied(file: Path, part: Path) -> None:
    part.parent.mkdir(parents=True, exist_ok=True)
    with file.open("rb") as source, part.open("xb") as target:
        shutil.copyfileobj(source, target, 1 << 20)
        target.flush()
        os.fsync(target.fileno())


def _open(form: BucketForm, config: dict[str, str]) -> ObjectStore:
    if form.url.startswith("file:"):
        return from_url(form.url, mkdir=True)
    # Nothing is repeated below us: one attempt is one request.
    store: ObjectStore = from_url(
        form.url,
        config=cast("S3Config", config),
        client_options={"timeout": form.timeout, "allow_http": form.allow_http},
        retry_config={"max_retries": 0},
    )
    return store


def _place(kind: str, form: BucketForm) -> tuple[str, int]:
    """Host and port of the store; no host for a folder.

    Raises:
        InvalidSettings: It is not said, so that it could not be held against the deployment's list.
    """
    if form.url.startswith("file:"):
        return "", 0
    config = {name.lower(): value for name, value in form.config.items()}
    named = next((config[name] for name in _ENDPOINTS if name in config), None)
    if named is None and form.url.startswith("gs:"):
        named = _GOOGLE
    found = urlsplit(named or "")
    if not found.hostname:
        raise InvalidSettings(
            f'kinds."{kind}".options: name the store\'s endpoint in config, such as '
            '"https://s3.eu-central-1.amazonaws.com", because [outside] lists the hosts that may be called'
        )
    return found.hostname, found.port or (80 if found.scheme == "http" else 443)


def _masked(value: str) -> str:
    return "x" if value.startswith(_SECRET) else value


def _revealed(value: str, reveals: Secrets) -> str:
    return reveals.reveal(value.removeprefix(_SECRET)) if value.startswith(_SECRET) else value
