"""Payloads that Temporal cannot read: AES-256-GCM under keys that only workers, services and operators hold.

``ASCERTAIN_CODEC_KEYS`` names a file with one key a line, ``id:key``, the key as 32 bytes in base64. The
first line encrypts and every line decrypts. A new key is first a second line everywhere, then the first.
"""

from __future__ import annotations

import base64
import binascii
import dataclasses
import os
import re
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from nexusrpc import HandlerError
from temporalio.api.common.v1 import Payload
from temporalio.common import RawValue
from temporalio.contrib.pydantic import PydanticPayloadConverter, pydantic_data_converter
from temporalio.converter import (
    DataConverter,
    DefaultFailureConverter,
    PayloadCodec,
    PayloadConverter,
)
from temporalio.exceptions import ApplicationError
from typing_extensions import override

from ascertain.errors import InvalidSettings, MissingSecret

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from temporalio.api.failure.v1 import Failure

KEYS_VARIABLE: Final = "ASCERTAIN_CODEC_KEYS"
ENCODING: Final = b"binary/encrypted"
_KEY_ID: Final = "ascertain-key"
_NONCE_BYTES: Final = 12
_KEY_BYTES: Final = 32
_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,64}")


@dataclass(frozen=True, slots=True)
class Keys:
    """The keys of a deployment. ``current`` encrypts.

    Attributes:
        by_id: Key id to cipher.
    """

    current: str
    by_id: Mapping[str, AESGCM]


class EncryptionCodec(PayloadCodec):
    """Encrypts whole payloads, with their metadata; lets pass what was never encrypted."""

    def __init__(self, keys: Keys) -> None:
        """Hold the keys of the deployment."""
        self._keys = keys

    @override
    async def encode(self, payloads: Sequence[Payload]) -> list[Payload]:
        """Encrypt under the current key; each payload under a nonce of its own."""
        return [self._sealed(payload) for payload in payloads]

    @override
    async def decode(self, payloads: Sequence[Payload]) -> list[Payload]:
        """Decrypt with the key that each payload names.

        Raises:
            MissingSecret: That key is not among ours.
            ValueError: A payload is not what was encrypted.
        """
        return [self._opened(payload) for payload in payloads]

    def _sealed(self, payload: Payload) -> Payload:
        key_id = self._keys.current.encode()
        nonce = secrets.token_bytes(_NONCE_BYTES)
        plain = payload.SerializeToString()
        sealed = self._keys.by_id[self._keys.current].encrypt(nonce, plain, key_id)
        return Payload(metadata={"encoding": ENCODING, _KEY_ID: key_id}, data=nonce + sealed)

    def _opened(self, payload: Payload) -> Payload:
        if payload.metadata.get("encoding") != ENCODING:
            return payload
        key_id = payload.metadata.get(_KEY_ID, b"")
        cipher = self._keys.by_id.get(key_id.decode(errors="replace"))
        if cipher is None:
            raise MissingSecret(
                f"a payload is encrypted under key {key_id.decode(errors='replace')!r}, which is not in the "
                f"file that {KEYS_VARIABLE} names"
            )
        nonce, sealed = payload.data[:_NONCE_BYTES], payload.data[_NONCE_BYTES:]
        try:
            return Payload.FromString(cipher.decrypt(nonce, sealed, key_id))
        except (InvalidTag, ValueError) as error:
            msg = f"a payload under key {key_id.decode()!r} is not what was encrypted"
            raise ValueError(msg) from error


class PatientConverter(PydanticPayloadConverter):
    """Gives back raw what cannot be decoded where nobody said what it must be.

    That is what a workflow meets that was started with too many arguments: an error would fail its first
    task for ever, and it could not even say what is wrong.
    """

    @override
    def from_payloads(
        self, payloads: Sequence[Payload], type_hints: list[type] | None = None
    ) -> list[Any]:
        """As the base class does it."""
        if type_hints:
            return super().from_payloads(payloads, type_hints)
        return [self._value(payload) for payload in payloads]

    def _value(self, payload: Payload) -> object:
        try:
            (value,) = super().from_payloads([payload])
        except Exception:  # noqa: BLE001  # converters raise anything over bytes that anybody sent
            return RawValue(payload)
        return value


class PlainFailures(DefaultFailureConverter):
    """What we raise on purpose is one sentence: no stack trace is stored with it."""

    @override
    def to_failure(
        self, exception: BaseException, payload_converter: PayloadConverter, failure: Failure
    ) -> None:
        """As the base class does it."""
        if isinstance(exception, ApplicationError | HandlerError):
            exception.__traceback__ = None
        super().to_failure(exception, payload_converter, failure)


class SealedFailures(PlainFailures):
    """Messages and stack traces are encrypted too."""

    def __init__(self) -> None:
        super().__init__(encode_common_attributes=True)


def load_keys() -> Keys | None:
    """The deployment's keys; None where it encrypts nothing.

    Raises:
        MissingSecret: The file is named and not there.
        InvalidSettings: It holds no keys, or a line of it is none. The message shows no key.
    """
    named = os.environ.get(KEYS_VARIABLE)
    if not named:
        return None
    try:
        text = Path(named).read_text("utf-8")
    except OSError as error:
        raise MissingSecret(f"the keys in {named} cannot be read: {error.strerror}") from error
    return parse_keys(text, named)


def parse_keys(text: str, where: str) -> Keys:
    """Keys from lines ``id:key``; blank lines and lines that begin with ``#`` are passed over.

    Raises:
        InvalidSettings: There is none, or a line is no key. The message shows no key.
    """
    found: dict[str, AESGCM] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        key_id, _, encoded = line.strip().partition(":")
        try:
            key = base64.b64decode(encoded, validate=True)
        except binascii.Error:
            key = b""
        if len(key) != _KEY_BYTES or not _NAME.fullmatch(key_id) or key_id in found:
            raise InvalidSettings(
                f"{where}, line {number}: must be id:key, an id of its own and 32 bytes in base64, such as "
                "`ascertain codec-key ID` prints"
            )
        found[key_id] = AESGCM(key)
    if not found:
        raise InvalidSettings(f"{where} holds no key; `ascertain codec-key ID` makes one")
    return Keys(next(iter(found)), found)


def new_key(key_id: str) -> str:
    """A line for the file of keys."""
    return f"{key_id}:{base64.b64encode(secrets.token_bytes(_KEY_BYTES)).decode()}"


def data_converter() -> DataConverter:
    """What every client and worker of a deployment speaks: pydantic values, encrypted if there are keys.

    With keys the messages and stack traces of failures are encrypted too.

    Raises:
        MissingSecret: See ``load_keys``.
        InvalidSettings: See ``load_keys``.
    """
    keys = load_keys()
    return dataclasses.replace(
        pydantic_data_converter,
        payload_converter_class=PatientConverter,
        payload_codec=None if keys is None else EncryptionCodec(keys),
        failure_converter_class=PlainFailures if keys is None else SealedFailures,
    )
