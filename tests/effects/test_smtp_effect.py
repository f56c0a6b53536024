"""A mail through a real worker: what becomes of it when the server's reply is lost."""

from __future__ import annotations

from ascertain.contracts.command import Action, Command
from ascertain.contracts.effect import Receipt, State
from ascertain.contracts.task import TaskOutcome
from ascertain.testing.fault import DropReply, DropRequest
from ascertain.testing.proxy import FaultProxy
from tests.adapters.mail_server import mail_server
from tests.effects.serving import doing, serve

KIND = "mail.send"
MAIL = doing(KIND, to=["ann@example.org"], subject="Hello", text="Hello Ann")
END = rb"(^|\n)\.\r\n$"


def options(port: int) -> dict[str, object]:
    sender = {"sender": "shop@example.com", "encryption": "none", "timeout": 3}
    return {"host": "127.0.0.1", "port": port, **sender}


async def test_a_lost_reply_goes_to_a_person_at_once_and_is_never_sent_again(deployments):
    deployment = await deployments()
    async with (
        mail_server() as server,
        FaultProxy("127.0.0.1", server.port, protocol="bytes") as cut,
    ):
        cut.inject(DropReply("reset"), match=END, times=1)
        await serve(deployment, KIND, "smtp", options(cut.port))
        effect = await deployment.submit("lost", MAIL)
        row = await deployment.wait_for_row(effect, lambda row: row.state is State.QUARANTINED)
        assert row.error_class == "no_lookup"
        assert server.mails_of(effect) == 1
        seen = Receipt(external_id=f"<{effect}@example.com>")
        confirm = Command(
            action=Action.CONFIRM,
            operator="ada",
            reason="it is in the recipient's inbox",
            version=row.version,
            receipt=seen,
        )
        assert (await deployment.takeover("lost", confirm)).applied
        assert (await deployment.result("lost")).outcome is TaskOutcome.DONE
        assert server.mails_of(effect) == 1


async def test_a_connection_that_breaks_before_the_message_is_tried_again_by_itself(deployments):
    deployment = await deployments()
    async with (
        mail_server() as server,
        FaultProxy("127.0.0.1", server.port, protocol="bytes") as cut,
    ):
        cut.inject(DropRequest("reset"), match=rb"^DATA", times=1)
        await serve(deployment, KIND, "smtp", options(cut.port))
        effect = await deployment.submit("again", MAIL)
        assert (await deployment.result("again")).outcome is TaskOutcome.DONE
        assert server.mails_of(effect) == 1
        assert await deployment.moves(effect) == ["claim", "clear", "claim", "settle"]
