"""The ``smtp`` adapter: a mail, sent at most once per attempt, with the phase deciding what is known.

::

    [kinds."mail.send"]
    adapter = "smtp"
    options = { host = "smtp.example.com", sender = "shop@example.com" }

Nothing exists before the server has the end of the message: whatever breaks earlier is "not sent". After the
end of the message only the server's reply tells. A mail server can neither be asked for a mail nor does it
drop a second one, so a reply that is lost goes to a person at once, and is never sent again by itself.

Source:
    RFC 5321, sections 3.3 and 4.2 (the reply to the end of data), 6.1 (responsibility passes with it).
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal

import aiosmtplib
from pydantic import Field, StringConstraints, model_validator

from ascertain.adapters import saying
from ascertain.adapters.declaration import read
from ascertain.adapters.mail import Address, FrozenMail, Line, message_id, write
from ascertain.adapters.reach import REACH, NotListed
from ascertain.contracts.effect import Receipt
from ascertain.contracts.finding import Unknowable
from ascertain.contracts.semantics import Semantics
from ascertain.contracts.value import StrictValue
from ascertain.errors import InvalidTask, MissingSecret
from ascertain.ports import FROZEN_MAX_BYTES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pydantic import JsonValue

    from ascertain.adapters.reach import Reach
    from ascertain.contracts.effect import Effect
    from ascertain.contracts.finding import Finding
    from ascertain.contracts.outcome import Outcome
    from ascertain.ports import Call, Permit, Secrets

_READY_FOR_DATA: Final = 354
_PERMANENT: Final = 5
_COMPLETED: Final = 2
# Codes that speak of our credentials or our place, not of this mail.
_OURS_TO_MEND: Final = frozenset({530, 534, 535, 538})
# Beyond this age the permit is renewed before the message ends.
_FRESH_S: Final = 1.0
_AT_A_TIME: Final = 16 * 1024
_AROUND: Final = timedelta(milliseconds=500)
_USUAL_PORT: Final = {"tls": 465, "starttls": 587, "none": 25}

Secret = Annotated[str, StringConstraints(pattern=r"^secret:[A-Za-z0-9_]+$")]


class SmtpOptions(StrictValue):
    """What a deployment says.

    Attributes:
        sender: In the envelope and in ``From``.
        encryption: ``starttls`` from plain text (587), ``tls`` from the first byte (465), or ``none`` (25).
        ca_file: Certificates, in PEM, that are trusted besides the public ones.
        put_off: What a 4xx reply to the end of the message means. The standard says that the server has not
            taken it; some have, and then failed. ``not_done`` believes the standard and tries again.
        timeout: Budget of one attempt. Beyond 5 s in all, the kind runs on a task queue of its own.
    """

    host: str
    port: Annotated[int, Field(ge=1, le=65535)] | None = None
    sender: Address
    sender_name: Line = ""
    username: str | None = None
    password: Secret | None = None
    encryption: Literal["starttls", "tls", "none"] = "starttls"
    ca_file: Path | None = None
    put_off: Literal["unknown", "not_done"] = "unknown"
    timeout: timedelta = timedelta(seconds=30)

    @model_validator(mode="after")
    def _both_or_none(self) -> SmtpOptions:
        if (self.username is None) is not (self.password is None):
            raise ValueError("username and password stand together or not at all")
        return self


def create(kind: str, options: Mapping[str, JsonValue], secrets: Secrets) -> SmtpAdapter:
    """Build the adapter of one kind from its options.

    Raises:
        InvalidSettings: An option is wrong; the message names its key.
    """
    return SmtpAdapter(read(SmtpOptions, kind, options), secrets)


class SmtpAdapter:
    """Sends a mail over one connection of its own."""

    def __init__(self, options: SmtpOptions, secrets: Secrets) -> None:
        self._options = options
        self._secrets = secrets
        self._reach = REACH.get()

    @property
    def semantics(self) -> Semantics:
        """No key and no lookup."""
        return Semantics(max_duration=self._options.timeout + _AROUND)

    def prepare(self, effect: Effect) -> bytes:
        """Freeze the envelope and the message, with the effect's id in its Message-ID.

        Raises:
            InvalidTask: The input is wrong or too large.
        """
        options, at = self._options, datetime.now(UTC)
        frozen = write(effect, options.sender, options.sender_name, at).model_dump_json().encode()
        if len(frozen) > FROZEN_MAX_BYTES:
            raise InvalidTask(
                f"the mail is {len(frozen)} bytes; at most {FROZEN_MAX_BYTES} are kept"
            )
        return frozen

    async def perform(self, call: Call, permit: Permit) -> Outcome:
        """Hand the frozen mail to the server once.

        Raises:
            PermitLost: The message was not ended, so there is none.
        """
        mail = FrozenMail.model_validate_json(call.frozen)
        try:
            delivery = _Delivery(self._client(), mail, permit, self._reach)
        except (MissingSecret, OSError) as error:
            return saying.unsent(getattr(error, "code", "not_sent"), str(error))
        try:
            async with asyncio.timeout(self._options.timeout.total_seconds()):
                reply = await delivery.run()
        except (aiosmtplib.SMTPException, OSError) as fault:  # TimeoutError is an OSError
            return _broken(fault, delivery.ended, self._options.host)
        finally:
            delivery.close()
        return self._judged(reply, call.effect)

    async def lookup(self, call: Call, *, within: timedelta) -> Finding:
        """A mail server cannot be asked."""
        del within
        wanted = message_id(call.effect.effect_id, self._options.sender)
        return Unknowable(detail=f"a mail server cannot be asked; look for Message-ID {wanted}")

    async def aclose(self) -> None:
        """Nothing is kept open."""

    def _client(self) -> aiosmtplib.SMTP:
        options = self._options
        password = None
        if options.password is not None:
            password = self._secrets.reveal(options.password.removeprefix("secret:"))
        trusted = ssl.create_default_context()
        if options.ca_file is not None:
            trusted.load_verify_locations(cafile=options.ca_file)
        return aiosmtplib.SMTP(
            hostname=options.host,
            port=options.port or _USUAL_PORT[options.encryption],
            username=options.username,
            password=password,
            timeout=options.timeout.total_seconds(),
            use_tls=options.encryption == "tls",
            start_tls=options.encryption == "starttls",
            tls_context=trusted,
        )

    def _judged(self, reply: aiosmtplib.SMTPResponse, effect: Effect) -> Outcome:
        said = f"{reply.code} {reply.message}"[:200]
        if reply.code // 100 == _COMPLETED:
            wanted = message_id(effect.effect_id, self._options.sender)
            receipt = Receipt(external_id=wanted, body={"reply": said})
            return saying.settled(receipt, f"the server took the mail: {said}")
        if reply.code // 100 == _PERMANENT:
            return saying.refused(f"smtp_{reply.code}", f"the server refused the mail: {said}")
        if self._options.put_off == "not_done":
            return saying.turned_away(f"smtp_{reply.code}", f"the server put the mail off: {said}")
        why = f"the server put the mail off when it had all of it, and may have kept it: {said}"
        return saying.doubted(f"smtp_{reply.code}", why)


class _Delivery:
    """One mail on its way through one connection.

    Attributes:
        ended: Whether the end of the message may have left; before it there is no mail.
    """

    def __init__(
        self, client: aiosmtplib.SMTP, mail: FrozenMail, permit: Permit, reach: Reach | None
    ) -> None:
        self._client = client
        self._reach = reach
        self._mail = mail
        self._permit = permit
        self.ended = False

    async def run(self) -> aiosmtplib.SMTPResponse:
        """Go through all phases and return the reply to the end of the message."""
        client, loop = self._client, asyncio.get_running_loop()
        began = loop.time()
        await self._connect()
        await client.mail(self._mail.sender)
        for recipient in self._mail.recipients:
            await client.rcpt(recipient)
        ready = await client.execute_command(b"DATA")
        if ready.code != _READY_FOR_DATA:
            raise aiosmtplib.SMTPDataError(ready.code, ready.message)
        protocol, transport = client.protocol, client.transport
        if protocol is None or not isinstance(transport, asyncio.WriteTransport):
            raise aiosmtplib.SMTPServerDisconnected("the connection is gone")
        # The kernel takes little of the body at a time, and all of it before the end is written: what breaks
        # until then is seen, and has carried no mail.
        transport.get_extra_info("socket").setsockopt(
            socket.SOL_SOCKET, socket.SO_SNDBUF, _AT_A_TIME
        )
        transport.set_write_buffer_limits(0)
        protocol.write(_stuffed(self._mail.message))
        # The flow control of asyncio's own streams.
        await protocol._drain_helper()  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
        if loop.time() - began > _FRESH_S:
            await self._permit.renew()
        if not protocol.is_connected:
            raise aiosmtplib.SMTPServerDisconnected("the connection broke within the message")
        self._permit.check()
        self.ended = True
        protocol.write(b".\r\n")
        reply = await protocol.read_response()
        protocol.write(b"QUIT\r\n")
        return reply

    async def _connect(self) -> None:
        client, reach = self._client, self._reach
        if reach is None:
            await client.connect()
            return
        try:
            opened = await reach.connect(client.hostname or "", client.port or 0)
        except OSError as error:
            raise aiosmtplib.SMTPConnectError(str(error)) from error
        await client.connect(port=None, sock=opened)

    def close(self) -> None:
        """Close the connection; what was not ended is no mail."""
        if not self.ended and self._client.transport is not None:
            transport = self._client.transport
            if isinstance(transport, asyncio.WriteTransport):
                transport.abort()
        self._client.close()


def _stuffed(message: str) -> bytes:
    """As the body travels: a dot at the start of a line is doubled."""
    lines = message.encode("ascii").split(b"\r\n")
    whole = b"\r\n".join(b"." + line if line.startswith(b".") else line for line in lines)
    return whole if whole.endswith(b"\r\n") else whole + b"\r\n"


def _broken(fault: Exception, ended: bool, host: str) -> Outcome:  # noqa: FBT001 - a phase
    code = _code_of(fault)
    word = f"smtp_{code}" if code else _word(fault)
    if ended:
        return saying.lost(word, f"left, no reply to the end of the message ({word}, {host})")
    if code is None:
        return saying.unsent(word, f"not sent: the message was not ended ({word}, {host})")
    said = f"refused by {host} before the message: {_said(fault)}"
    about_us = isinstance(fault, aiosmtplib.SMTPConnectResponseError | aiosmtplib.SMTPHeloError)
    if code // 100 == _PERMANENT and code not in _OURS_TO_MEND and not about_us:
        return saying.refused(word, said)
    return saying.turned_away(word, said)


def _code_of(fault: Exception) -> int | None:
    """The code of a real reply; aiosmtplib has codes of its own for what is none."""
    code = fault.code if isinstance(fault, aiosmtplib.SMTPResponseException) else None
    return code if code is not None and 200 <= code < 600 else None  # noqa: PLR2004


def _said(fault: Exception) -> str:
    if isinstance(fault, aiosmtplib.SMTPResponseException):
        return f"{fault.code} {fault.message}"[:200]
    return type(fault).__name__


def _word(fault: Exception) -> str:
    if isinstance(fault, aiosmtplib.SMTPConnectTimeoutError):
        return "connect_timeout"
    if isinstance(fault, aiosmtplib.SMTPConnectError):
        match fault.__cause__:
            case ConnectionRefusedError():
                return "connection_refused"
            case NotListed():
                return "not_listed"
            case _:
                return "connect_failed"
    if isinstance(fault, ssl.SSLError):
        return "tls_failed"
    return "silence" if isinstance(fault, TimeoutError) else "connection_lost"
