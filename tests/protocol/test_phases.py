"""Whether a request left decides what may be done next, and only bytes tell."""

from __future__ import annotations

import socket
from contextlib import closing, contextmanager

import pytest

from ascertain.contracts.effect import State
from ascertain.contracts.task import TaskOutcome
from ascertain.testing.knob import Answer, Dedupe, Knobs, Rule, Silence, SubmitKnobs
from ascertain.testing.proxy import FaultProxy
from starter.process import free_port
from tests.protocol.deployment import step
from tests.protocol.kinds import MORTAL


@contextmanager
def silent_port():
    """A port whose connections the kernel takes and nobody answers, so that TLS never comes about."""
    with closing(socket.socket()) as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        yield listening.getsockname()[1]


def address(deployment, url):
    for kind in deployment.settings["kinds"].values():
        kind["options"]["base_url"] = url
    deployment.configure()


@pytest.mark.parametrize("fault", ["name", "refused", "tls"])
async def test_what_never_left_us_is_known_not_to_exist_without_asking(deployments, fault):
    deployment = await deployments()
    with silent_port() as silent:
        urls = {
            "name": "http://no-such-host.invalid",
            "refused": f"http://127.0.0.1:{free_port()}",
            "tls": f"https://127.0.0.1:{silent}",
        }
        address(deployment, urls[fault])
        await deployment.worker()
        effect = await deployment.submit("phase", step(kind="toy.asked"))
        row = await deployment.wait_for_row(effect, lambda row: row.state is State.CLEAR)
    assert row.evidence.source == "phase"
    assert (await deployment.moves(effect))[:2] == ["claim", "clear"]


async def test_a_port_that_opens_again_gets_one_request(deployments):
    deployment = await deployments(policy={"budget": 20, "retry_base": 0.3})
    port = int(deployment.outside.url.rsplit(":", 1)[1])
    # At a port that nobody else is given while it is closed.
    async with FaultProxy("127.0.0.1", port, port=free_port()) as proxy:
        await proxy.refuse()
        address(deployment, f"http://127.0.0.1:{proxy.port}")
        await deployment.worker()
        effect = await deployment.submit("opens", step(kind="toy.asked"))
        await deployment.wait_for_row(effect, lambda row: row.state is State.CLEAR)
        await proxy.heal()
        result = await deployment.result("opens")
    assert result.outcome is TaskOutcome.DONE
    assert (deployment.submits(effect), deployment.facts(effect)) == (1, 1)
    assert "doubt" not in await deployment.moves(effect)


async def test_a_changed_deployment_does_not_change_what_was_frozen(deployments):
    deployment = await deployments(policy={**MORTAL, "retry_base": 1})
    deployment.outside.rules.knobs = Knobs(dedupe=Dedupe(by="key_and_body", mismatch_status=400))
    worker = await deployment.worker()
    deployment.meet(SubmitKnobs(commit="never", reply=Silence(seconds=30)))
    effect = await deployment.submit("frozen", step(kind="toy.asked"))
    await deployment.outside.books.wait_for("submit", key=effect)
    await worker.kill()
    request = deployment.settings["kinds"]["toy.asked"]["options"]["request"]
    request["json"] = {**request["json"], "added": "by a later release"}
    deployment.configure()
    await deployment.worker()
    assert (await deployment.result("frozen")).outcome is TaskOutcome.DONE
    submits = deployment.outside.books.submits_of(effect)
    assert len(submits) == 2
    assert len({submit.sha256 for submit in submits}) == 1


async def test_a_key_that_holds_another_request_is_looked_up_and_never_replaced(deployments):
    deployment = await deployments()
    await deployment.worker()
    other = Answer(status=400, body={"error": {"type": "idempotency_error"}})
    deployment.keyed.rules.add(Rule(times=1, submit=SubmitKnobs(reply=other)))
    effect = await deployment.submit("mismatch", step(kind="toy.asked_keyed"))
    result = await deployment.result("mismatch")
    assert result.outcome is TaskOutcome.DONE
    assert (deployment.submits(effect), deployment.facts(effect)) == (1, 1)
    doubt = (await deployment.ledger.audit(effect))[1]
    assert (doubt.move, doubt.to_state) == ("doubt", State.UNKNOWN)
