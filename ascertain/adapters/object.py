"""The ``object`` adapter: a document that is put into a store if it is not there yet.

::

    [kinds."report.publish"]
    adapter = "object"

    [kinds."report.publish".options]
    url = "s3://reports/daily"
    config = { region = "eu-central-1", access_key_id = "secret:S3_ID", secret_access_key = "secret:S3_KEY" }
    key = "{input.day}/{effect_id}.json"

The store refuses a second object of one name, so a late or repeated request does no harm. An object that is
there already is read and compared: the same bytes are this effect's fact, others are for a person.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Final, Literal

from pydantic import Field, JsonValue, StringConstraints, model_validator

from ascertain.adapters import saying
from ascertain.adapters.bucket import Bucket, BucketForm
from ascertain.adapters.declaration import read
from ascertain.adapters.template import ABOUT_EFFECT, MissingValueError, Template, scope_of
from ascertain.contracts.finding import Absent, Differs, Found
from ascertain.contracts.semantics import LookupBy, Semantics
from ascertain.contracts.value import StrictValue, Value
from ascertain.errors import InvalidTask
from ascertain.keys import canonical
from ascertain.ports import FROZEN_MAX_BYTES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ascertain.contracts.effect import Effect
    from ascertain.contracts.finding import Finding
    from ascertain.contracts.outcome import Outcome
    from ascertain.contracts.value import JsonObject
    from ascertain.ports import Call, Permit, Secrets

_MAX_KEY: Final = 255
_IN_FLIGHT_MAX: Final = timedelta(seconds=60)
_AROUND: Final = timedelta(milliseconds=500)


class ObjectOptions(BucketForm):
    """What a deployment says.

    Attributes:
        key: The object's name below the address. One value of a task becomes one piece of it.
    """

    key: Template

    @model_validator(mode="after")
    def _known(self) -> ObjectOptions:
        unknown = {found.root for found in self.key.references} - ABOUT_EFFECT
        if unknown:
            raise ValueError(f"key: {{{min(unknown)}}} is not known before it is put")
        return self


class ObjectInput(StrictValue):
    """The input of an object: exactly one of ``text``, ``json`` and ``base64``.

    More than about 190 KiB do not fit: produce it where it is stored (the ``command`` adapter).
    """

    text: str | None = None
    document: Annotated[JsonValue, Field(alias="json")] = None
    encoded: Annotated[str | None, Field(alias="base64")] = None
    content_type: Annotated[str, StringConstraints(pattern=r"^[!-~][ -~]{0,126}$")] | None = None

    @model_validator(mode="after")
    def _one(self) -> ObjectInput:
        if len(self.model_fields_set & {"text", "document", "encoded"}) != 1:
            raise ValueError("give exactly one of text, json and base64")
        return self

    def content(self) -> tuple[bytes, str]:
        """The object's bytes, and their type where the input names none.

        Raises:
            InvalidTask: They are no valid base64, or no valid Unicode.
        """
        try:
            if self.text is not None:
                return self.text.encode(), "text/plain; charset=utf-8"
            if self.encoded is not None:
                return base64.b64decode(self.encoded, validate=True), "application/octet-stream"
        except (binascii.Error, UnicodeError) as error:
            raise InvalidTask(f"the content cannot be read: {error}") from None
        return canonical(self.document), "application/json"


class FrozenObject(Value):
    """One object, ready to be put."""

    version: Literal[1] = 1
    key: str
    content: str
    content_type: str
    sha256: str


def create(kind: str, options: Mapping[str, JsonValue], secrets: Secrets) -> ObjectAdapter:
    """Build the adapter of one kind from its options.

    Raises:
        InvalidSettings: An option is wrong; the message names its key.
    """
    chosen = read(ObjectOptions, kind, options)
    return ObjectAdapter(chosen, Bucket(kind, chosen, secrets))


class ObjectAdapter:
    """Puts one object once."""

    def __init__(self, options: ObjectOptions, bucket: Bucket) -> None:
        self._options = options
        self._bucket = bucket

    @property
    def semantics(self) -> Semantics:
        """These stores show an object as soon as it is there."""
        return Semantics(
            lookup=LookupBy.KEY,
            compares_bodies=True,
            in_flight_max=_IN_FLIGHT_MAX,
            max_duration=self._options.timeout + _AROUND,
        )

    def prepare(self, effect: Effect) -> bytes:
        """Freeze the object's name and bytes.

        Raises:
            InvalidTask: The input is wrong or too large, or makes no name.
        """
        given = saying.checked(ObjectInput, effect.input)
        content, usual = given.content()
        frozen = FrozenObject(
            key=self._key(effect),
            content=base64.b64encode(content).decode(),
            content_type=given.content_type or usual,
            sha256=hashlib.sha256(content).hexdigest(),
        )
        stored = frozen.model_dump_json().encode()
        if len(stored) > FROZEN_MAX_BYTES:
            raise InvalidTask(f"the object is {len(content)} bytes; at most about 190 KiB are kept")
        return stored

    async def perform(self, call: Call, permit: Permit) -> Outcome:
        """Put it if it is not there.

        Raises:
            PermitLost: Nothing was sent.
        """
        frozen = FrozenObject.model_validate_json(call.frozen)

        async def permitted() -> None:
            permit.check()

        return await self._bucket.put(
            frozen.key,
            base64.b64decode(frozen.content),
            effect_id=call.effect.effect_id,
            content_type=frozen.content_type,
            sha256=frozen.sha256,
            permitted=permitted,
        )

    async def lookup(self, call: Call, *, within: timedelta) -> Finding:
        """Read it and compare.

        Raises:
            LookupDown: The store cannot be read now.
        """
        del within  # bounded by the store's own time-out
        frozen = FrozenObject.model_validate_json(call.frozen)
        size = len(base64.b64decode(frozen.content))
        kept = await self._bucket.find(frozen.key, wanted=lambda there: there == size)
        if kept is None:
            return Absent(detail=f"{frozen.key} is not there")
        wanted: JsonObject = {"sha256": frozen.sha256, "size": size}
        there: JsonObject = {"sha256": kept.sha256, "size": kept.size}
        if kept.effect_id is not None:
            wanted["effect_id"], there["effect_id"] = call.effect.effect_id, kept.effect_id
        if wanted != there:
            return Differs(external_id=kept.key, expected=wanted, found=there)
        return kept.not_of(call.effect.effect_id) or Found(receipt=kept.receipt())

    async def aclose(self) -> None:
        """The store keeps nothing that has to be given back."""

    def _key(self, effect: Effect) -> str:
        try:
            key = self._options.key.text(scope_of(effect, effect.input), in_address=True)
        except MissingValueError as error:
            raise InvalidTask(f"{effect.effect_id}: {error}") from error
        if len(key) > _MAX_KEY:
            raise InvalidTask(f"{effect.effect_id}: the name is longer than {_MAX_KEY} characters")
        return key
