"""A real mail server (aiosmtpd) that keeps books of every mail it took."""

from __future__ import annotations

import asyncio
import contextlib
import email
from dataclasses import dataclass, field
from email.policy import default
from typing import TYPE_CHECKING, Any

from aiosmtpd.smtp import SMTP

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from email.message import EmailMessage


@dataclass
class MailServer:
    """What came in, and how it answers.

    Attributes:
        rcpt: The reply to a recipient, where it is not taken.
        data: The reply to the end of the message; the mail is kept all the same.
    """

    port: int = 0
    mails: list[EmailMessage] = field(default_factory=list)
    recipients: list[list[str]] = field(default_factory=list)
    rcpt: dict[str, str] = field(default_factory=dict)
    data: str = "250 OK, kept"

    async def handle_RCPT(  # noqa: N802 - aiosmtpd's name
        self, server: Any, session: Any, envelope: Any, address: str, options: Any
    ):
        if address in self.rcpt:
            return self.rcpt[address]
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:  # noqa: N802 - aiosmtpd's name
        self.mails.append(email.message_from_bytes(envelope.content, policy=default))
        self.recipients.append(list(envelope.rcpt_tos))
        return self.data

    def mails_of(self, effect_id: str) -> int:
        return sum(effect_id in mail["Message-ID"] for mail in self.mails)


@contextlib.asynccontextmanager
async def mail_server(**options: Any) -> AsyncIterator[MailServer]:
    books, sessions = MailServer(), []

    def session() -> SMTP:
        sessions.append(
            SMTP(books, hostname="mail.test", loop=asyncio.get_running_loop(), **options)
        )
        return sessions[-1]

    server = await asyncio.get_running_loop().create_server(session, "127.0.0.1", 0)
    books.port = server.sockets[0].getsockname()[1]
    try:
        yield books
    finally:
        server.close()
        for one in sessions:
            if one.transport is not None:
                one.transport.abort()
