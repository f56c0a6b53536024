"""An event through a real worker: what becomes of it when the consumer's answer is lost."""

from __future__ import annotations

from ascertain.contracts.effect import State
from ascertain.contracts.task import TaskOutcome
from ascertain.testing.fault import DropReply
from ascertain.testing.proxy import FaultProxy
from tests.adapters.consumer import SIGNING, consumer
from tests.effects.serving import doing, serve

KIND = "order.notify"
STEP = doing(KIND, type="com.example.order.paid", data={"total": 7})
SECRETS = {"HOOK": SIGNING}


def options(url: str) -> dict[str, object]:
    return {"url": url, "source": "https://shop.example.com", "sign": ["secret:HOOK"]}


async def test_a_lost_answer_goes_to_a_person_unless_the_consumer_drops_repeats(deployments):
    deployment = await deployments()
    async with consumer() as told, FaultProxy("127.0.0.1", told.port) as cut:
        cut.inject(DropReply("reset"), times=1)
        await serve(deployment, KIND, "webhook", options(cut.url), secrets=SECRETS)
        effect = await deployment.submit("lost", STEP)
        row = await deployment.wait_for_row(effect, lambda row: row.state is State.QUARANTINED)
        assert row.error_class == "no_lookup"
        assert told.of(effect) == 1


async def test_a_consumer_that_drops_repeats_is_told_again_under_the_same_id(deployments):
    deployment = await deployments()
    keyed = {"idempotent_for": 3600, "key_margin": 5}
    async with consumer() as told, FaultProxy("127.0.0.1", told.port) as cut:
        cut.inject(DropReply("reset"), times=1)
        await serve(deployment, KIND, "webhook", options(cut.url), secrets=SECRETS, semantics=keyed)
        effect = await deployment.submit("again", STEP)
        assert (await deployment.result("again")).outcome is TaskOutcome.DONE
        assert told.of(effect) == 2
        assert len({event["time"] for event in told.events}) == 1
        assert await deployment.moves(effect) == ["claim", "doubt", "resend", "settle"]
