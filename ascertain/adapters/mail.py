"""A mail as it is frozen before the first claim: envelope, and every byte of the message."""

from __future__ import annotations

import re
from email.headerregistry import Address as NamedAddress
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import AfterValidator, Field, StringConstraints

from ascertain.adapters.saying import checked
from ascertain.contracts.value import StrictValue, Value
from ascertain.errors import InvalidTask

if TYPE_CHECKING:
    from datetime import datetime

    from ascertain.contracts.effect import Effect

_MAX_RECIPIENTS = 50


def _plain_address(text: str) -> str:
    """An address without a name; the domain may be international, the part before it may not."""
    local, _, domain = text.rpartition("@")
    try:
        encoded = domain.encode("idna").decode("ascii")
    except UnicodeError:
        raise ValueError("the domain is not valid") from None
    if not re.fullmatch(r"[!#$%&'*+/=?^_`{|}~0-9A-Za-z.-]{1,64}", local) or "." not in encoded:
        raise ValueError("an address is written like name@example.com")
    return f"{local}@{encoded}"


Address = Annotated[str, StringConstraints(max_length=254), AfterValidator(_plain_address)]
Line = Annotated[str, StringConstraints(pattern=r"^[^\x00-\x1f\x7f]*$", max_length=500)]


class MailInput(StrictValue):
    """The input of a mail.

    All recipients get it or none: a mail server that refuses one of them refuses the effect. For mails that
    may reach some and not others, give each recipient a step of its own.

    Attributes:
        text: The body for every reader; ``html`` may stand beside it.
    """

    to: Annotated[tuple[Address, ...], Field(min_length=1, max_length=_MAX_RECIPIENTS)]
    cc: Annotated[tuple[Address, ...], Field(max_length=_MAX_RECIPIENTS)] = ()
    reply_to: Address | None = None
    subject: Line
    text: str
    html: str | None = None


class FrozenMail(Value):
    """One mail, ready to be sent: the same bytes in every attempt.

    Attributes:
        message: Headers and body in ASCII, with CRLF line ends.
    """

    version: Literal[1] = 1
    sender: str
    recipients: tuple[str, ...]
    message: str


def message_id(effect_id: str, sender: str) -> str:
    """The Message-ID of an effect, by which a person can find it in any mailbox and log."""
    return f"<{effect_id}@{sender.rpartition('@')[2]}>"


def write(effect: Effect, sender: Address, name: str, at: datetime) -> FrozenMail:
    """The mail of an effect.

    Args:
        effect: Its input says what to write, and to whom.
        sender: In the envelope and in ``From``; the deployment's, never a task's.
        name: Shown beside it; empty: none.
        at: For ``Date``.

    Raises:
        InvalidTask: The input is wrong.
    """
    content = checked(MailInput, effect.input)
    message = EmailMessage(SMTP.clone(cte_type="7bit"))
    message["From"] = str(NamedAddress(name, addr_spec=sender))
    message["To"] = ", ".join(content.to)
    if content.cc:
        message["Cc"] = ", ".join(content.cc)
    if content.reply_to is not None:
        message["Reply-To"] = content.reply_to
    message["Subject"] = content.subject
    message["Date"] = format_datetime(at)
    message["Message-ID"] = message_id(effect.effect_id, sender)
    # So that vacation programs do not answer a machine (RFC 3834).
    message["Auto-Submitted"] = "auto-generated"
    try:
        message.set_content(content.text)
        if content.html is not None:
            message.add_alternative(content.html, subtype="html")
        text = message.as_bytes().decode("ascii")
    except UnicodeError:
        raise InvalidTask(f"{effect.effect_id}: the text is not valid Unicode") from None
    recipients = tuple(dict.fromkeys((*content.to, *content.cc)))
    return FrozenMail(sender=sender, recipients=recipients, message=text)
