"""Mails against a real mail server: the phase decides what is known of them."""

from __future__ import annotations

import socket
import ssl
from typing import TYPE_CHECKING, Any

import pytest

from ascertain.adapters.smtp import create
from ascertain.contracts import finding, outcome
from ascertain.errors import InvalidSettings, InvalidTask, PermitLost
from ascertain.testing.fault import DropReply, DropRequest
from ascertain.testing.proxy import FaultProxy
from starter.process import free_port
from tests.adapters.calls import WITHIN, GivenPermit, GivenSecrets, call, effect
from tests.adapters.mail_server import MailServer, mail_server
from tests.adapters.raw_server import raw_server

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from ascertain.adapters.smtp import SmtpAdapter
    from ascertain.contracts.effect import Effect
    from tests.adapters.raw_server import Peer

KIND = "mail.send"
MAIL = {"to": ["ann@example.org"], "subject": "Grüße", "text": "Hello\n.dot\n..two\n"}
WHAT = effect(KIND, MAIL)
END = rb"(^|\n)\.\r\n$"


def sender(port: int, **options: Any) -> SmtpAdapter:
    given = {"host": "127.0.0.1", "port": port, "sender": "shop@example.com", "encryption": "none"}
    return create(KIND, {**given, "timeout": 3, **options}, GivenSecrets())


@pytest.fixture
async def server() -> AsyncIterator[MailServer]:
    async with mail_server() as server:
        yield server


async def perform(adapter: SmtpAdapter, what: Effect = WHAT) -> outcome.Outcome:
    return await adapter.perform(call(what, adapter.prepare(what)), GivenPermit())


async def test_a_mail_arrives_whole_and_carries_the_effects_id(server: MailServer):
    html = effect(KIND, {**MAIL, "html": "<p>Hello</p>", "cc": ["bob@münchen.example"]})
    came_to = await perform(sender(server.port, sender_name="The Shop, Inc."), html)
    assert isinstance(came_to, outcome.Settled)
    assert came_to.receipt.external_id == f"<{WHAT.effect_id}@example.com>"
    assert came_to.receipt.body == {"reply": "250 OK, kept"}
    (mail,) = server.mails
    assert mail["Message-ID"] == came_to.receipt.external_id
    assert mail["Subject"] == "Grüße"
    assert mail["From"].addresses[0].display_name == "The Shop, Inc."
    assert server.recipients == [["ann@example.org", "bob@xn--mnchen-3ya.example"]]
    plain, rich = mail.get_body(("plain",)), mail.get_body(("html",))
    assert plain.get_content().replace("\r\n", "\n") == MAIL["text"]
    assert rich.get_content().strip() == "<p>Hello</p>"


async def test_a_reply_that_is_lost_after_the_end_of_the_message_is_doubt(server: MailServer):
    async with FaultProxy("127.0.0.1", server.port, protocol="bytes") as proxy:
        proxy.inject(DropReply("reset"), match=END, times=1)
        came_to = await perform(sender(proxy.port))
    assert isinstance(came_to, outcome.Unknown)
    assert came_to.error_class == "connection_lost"
    assert server.mails_of(WHAT.effect_id) == 1


async def test_silence_after_the_end_of_the_message_is_doubt(server: MailServer):
    async with FaultProxy("127.0.0.1", server.port, protocol="bytes") as proxy:
        proxy.inject(DropReply("silence"), match=END, times=1)
        came_to = await perform(sender(proxy.port, timeout=2))
    assert isinstance(came_to, outcome.Unknown)
    assert came_to.error_class == "silence"
    assert server.mails_of(WHAT.effect_id) == 1


@pytest.mark.parametrize("command", [rb"^EHLO", rb"^MAIL", rb"^RCPT", rb"^DATA"])
async def test_whatever_breaks_before_the_end_of_the_message_is_not_sent(
    server: MailServer, command: bytes
):
    async with FaultProxy("127.0.0.1", server.port, protocol="bytes") as proxy:
        proxy.inject(DropRequest("reset"), match=command, times=1)
        came_to = await perform(sender(proxy.port))
    assert isinstance(came_to, outcome.NotDone)
    assert came_to.evidence.source == "phase"
    assert server.mails == []


async def test_a_connection_that_breaks_within_the_message_has_carried_none():
    async def script(peer: Peer) -> None:
        await peer.send(b"220 here\r\n")
        for reply in (b"250 hello\r\n", b"250 ok\r\n", b"250 ok\r\n"):
            await peer.reader.readline()
            await peer.send(reply)
        await peer.reader.readline()
        peer.writer.transport.pause_reading()
        peer.writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        await peer.send(b"354 go on\r\n")
        peer.reset()

    large = effect(KIND, {**MAIL, "text": "x" * 70 + "\n" + ("y" * 70 + "\n") * 3000})
    permit = GivenPermit()
    async with raw_server(script) as server:
        adapter = sender(server.port)
        came_to = await adapter.perform(call(large, adapter.prepare(large)), permit)
    assert isinstance(came_to, outcome.NotDone)
    assert permit.checks == 0


@pytest.mark.parametrize(
    ("reply", "kind", "error_class"),
    [
        ("550 no such user", outcome.Refused, "smtp_550"),
        ("450 greylisted", outcome.NotDone, "smtp_450"),
    ],
)
async def test_one_recipient_refused_is_no_mail_for_anybody(
    server: MailServer, reply: str, kind: type, error_class: str
):
    server.rcpt["bob@example.org"] = reply
    came_to = await perform(
        sender(server.port), effect(KIND, {**MAIL, "to": ["ann@example.org", "bob@example.org"]})
    )
    assert type(came_to) is kind
    assert came_to.error_class == error_class
    assert server.mails == []


@pytest.mark.parametrize(
    ("reply", "put_off", "kind"),
    [
        ("554 spam", "unknown", outcome.Refused),
        ("451 try later", "unknown", outcome.Unknown),
        ("451 try later", "not_done", outcome.NotDone),
    ],
)
async def test_what_the_reply_to_the_end_of_the_message_means(
    server: MailServer, reply: str, put_off: str, kind: type
):
    server.data = reply
    assert type(await perform(sender(server.port, put_off=put_off))) is kind


async def test_a_port_that_nobody_listens_on_is_not_sent():
    came_to = await perform(sender(free_port()))
    assert isinstance(came_to, outcome.NotDone)
    assert came_to.error_class == "connection_refused"


async def test_a_lost_permit_ends_the_connection_before_the_end_of_the_message(server: MailServer):
    adapter = sender(server.port)
    with pytest.raises(PermitLost):
        await adapter.perform(call(WHAT, adapter.prepare(WHAT)), GivenPermit(lost=True))
    assert server.mails == []


async def test_credentials_are_given_after_encryption_and_wrong_ones_are_not_the_mails_fault(
    certificate: Path,
):
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate)
    seen: list[tuple[bytes, bytes]] = []

    def authenticate(server: Any, session: Any, envelope: Any, mechanism: str, data: Any) -> Any:
        from aiosmtpd.smtp import AuthResult

        seen.append((data.login, data.password))
        return AuthResult(success=data.password == b"right")

    options = {"tls_context": context, "authenticator": authenticate, "auth_required": True}
    async with mail_server(**options) as server:
        given = {"username": "shop", "encryption": "starttls", "ca_file": str(certificate)}
        for password, kind in (("right", outcome.Settled), ("wrong", outcome.NotDone)):
            adapter = create(
                KIND,
                {
                    "host": "127.0.0.1",
                    "port": server.port,
                    "sender": "shop@example.com",
                    "timeout": 3,
                }
                | given
                | {"password": "secret:MAIL"},
                GivenSecrets({"MAIL": password}),
            )
            assert type(await perform(adapter)) is kind
        assert seen[0] == (b"shop", b"right")
        assert len(server.mails) == 1


async def test_a_missing_secret_and_a_missing_encryption_send_nothing(server: MailServer):
    secret = {"username": "shop", "password": "secret:NOWHERE"}
    for options in (secret, {"encryption": "starttls"}):
        assert isinstance(await perform(sender(server.port, **options)), outcome.NotDone)
    assert server.mails == []


async def test_every_attempt_sends_the_same_bytes(server: MailServer):
    adapter = sender(server.port)
    frozen = adapter.prepare(effect(KIND, {**MAIL, "html": "<p>x</p>"}))
    for attempt in (1, 2):
        await adapter.perform(call(WHAT, frozen, attempt=attempt), GivenPermit())
    assert server.mails[0].as_bytes() == server.mails[1].as_bytes()


async def test_a_mail_server_cannot_be_asked():
    adapter = sender(1)
    found = await adapter.lookup(call(WHAT, adapter.prepare(WHAT)), within=WITHIN)
    assert isinstance(found, finding.Unknowable)
    assert WHAT.effect_id in found.detail
    assert adapter.semantics.lookup is None


@pytest.mark.parametrize(
    "changes",
    [
        {"to": []},
        {"to": ["ann"]},
        {"to": ["ann@example.org\r\nBcc: eve@example.org"]},
        {"subject": "one\r\nBcc: eve@example.org"},
        {"reply_to": "Ann <ann@example.org>"},
        {"from": "boss@example.com"},
        {"text": "\ud800"},
        {"text": "x" * 300_000},
    ],
)
def test_input_that_makes_no_mail_is_refused(changes: dict[str, Any]):
    with pytest.raises(InvalidTask):
        sender(1).prepare(effect(KIND, {**MAIL, **changes}))


@pytest.mark.parametrize(
    "options", [{"username": "shop"}, {"password": "secret:X"}, {"username": "u", "password": "p"}]
)
def test_a_password_is_named_and_never_written(options: dict[str, Any]):
    with pytest.raises(InvalidSettings):
        sender(1, **options)
