"""What can be fetched from a worker and from the process that reads the ledger."""

from __future__ import annotations

import asyncio
import socket
from contextlib import closing

import pytest

from ascertain import metric
from ascertain.contracts.effect import State
from ascertain.ledger.migration import migrate
from ascertain.metric import Source
from ascertain.testing.knob import Drop, SubmitKnobs
from starter.postgres import EmbeddedPostgres
from starter.process import free_port
from tests.cli.conftest import PROGRAM
from tests.protocol.deployment import step
from tests.protocol.watching import becomes, exporter, fetch, series, value
from tests.waiting import wait_until

LOST = SubmitKnobs(reply=Drop(how="reset"))
SDK = (
    "temporal_worker_task_slots_available",
    "temporal_request_total",
    "temporal_workflow_task_schedule_to_start_latency_seconds_bucket",
)


async def watched(deployments, **more):
    """A deployment whose workers show themselves, and where."""
    ports = free_port(), free_port()
    at = dict(zip(("metrics", "temporal_metrics"), (f"127.0.0.1:{p}" for p in ports), strict=True))
    return await deployments(worker=at, **more), *ports


async def doubted(deployment, name, kind="toy.fact", partition="default"):
    """An effect that happened and whose answer was lost."""
    deployment.meet(LOST)
    return await deployment.submit(name, step(kind=kind), partition=partition)


async def test_a_worker_shows_what_it_did_and_that_it_is_ready_until_it_drains(deployments):
    deployment, port, sdk = await watched(deployments)
    worker = await deployment.worker()
    assert await fetch(port, "/ready") == (200, "ready\n")
    assert await fetch(port, "/live") == (200, "live\n")
    await deployment.submit("smooth", step(), partition="eu")
    await deployment.result("smooth")
    await doubted(deployment, "lost", partition="eu")
    await deployment.result("lost")
    await becomes(port, 1, "ascertain_reconciliation_lag_seconds_count", kind="toy.fact")
    about = {"kind": "toy.fact", "partition": "eu"}
    counted = {
        outcome: await value(port, "ascertain_outcomes_total", outcome=outcome, **about)
        for outcome in ("settled", "unknown")
    }
    assert counted == {"settled": 1, "unknown": 1}
    assert await value(port, "ascertain_claims_total", answer="granted", **about) == 2
    assert await value(port, "ascertain_fenced_writes_total", **about) == 0
    assert await value(port, "ascertain_call_seconds_count", kind="toy.fact") == 2
    assert await value(port, "ascertain_lookup_seconds_count", finding="found") >= 1
    # Its permit 10 s, its call 2.5 s, in flight 1 s, no lag, the longest wait to be asked 300 s.
    assert await value(port, "ascertain_longest_legal_seconds", kind="toy.fact") == 313.5
    assert set(SDK) <= set(await series(sdk))
    await drains(deployment, worker, port)


async def drains(deployment, worker, port):
    """Not ready while a call is in hand, and then gone."""
    deployment.meet(SubmitKnobs(reply=Drop(how="reset", after_s=3)))
    effect = await deployment.submit("last", step(kind="toy.slow"))
    await deployment.wait_for_row(effect, lambda row: row.state is State.IN_FLIGHT)
    ended = asyncio.create_task(worker.drain())

    async def told() -> bool:
        return (await fetch(port, "/ready"))[0] == 503

    await wait_until(told, what="it is not ready any more")
    assert await ended == 0
    assert await fetch(port, "/live") == (0, "")


async def test_the_ledger_s_process_shows_what_is_open_what_is_paused_and_the_last_census(
    deployments,
):
    deployment = await deployments()
    port = free_port()
    await deployment.worker()
    await deployment.submit("smooth", step())
    await deployment.result("smooth")
    await deployment.gate("us", paused=True)
    stuck = await doubted(deployment, "stuck", "toy.neither", "eu")
    await deployment.wait_for_row(stuck, lambda row: row.state is State.QUARANTINED)
    async with exporter(deployment.variables, port) as process:
        about = {"kind": "toy.neither", "partition": "eu", "state": "QUARANTINED"}
        await becomes(port, 1, "ascertain_effects", **about)
        assert await value(port, "ascertain_effects", kind="toy.fact") is None
        assert await value(port, "ascertain_stuck_task_age_seconds", **about) > 0
        await becomes(port, 1, "ascertain_gate_state", partition="us", state="paused")
        await deployment.gate("us", paused=False)
        await becomes(port, 0, "ascertain_gate_state", partition="us", state="paused")
        await becomes(port, 1, "ascertain_gate_state", partition="us", state="open")
        await becomes(port, None, "ascertain_duplicate_effect_rate")
        deployment.make_fact(deployment.effect("smooth"), amount=1)
        await census(deployment)
        await becomes(port, 1, "ascertain_duplicate_effect_rate", kind="toy.fact")
        disagreed = {"kind": "toy.fact", "discord": "duplicate"}
        assert await value(port, "ascertain_census_discrepancies", **disagreed) == 1
        shown = set(await series(port)) - {"target_info"}
        assert shown == {each.shown for each in metric.METRICS if each.source is Source.LEDGER}
        process.terminate()
        assert await process.wait() == 0


async def census(deployment):
    taken = await asyncio.create_subprocess_exec(
        *(PROGRAM, "census", "--kind", "toy.fact", "--json"),
        env=deployment.variables,
        stdout=asyncio.subprocess.DEVNULL,
    )
    assert await taken.wait() == 13


async def test_a_ledger_that_goes_away_is_shown_as_such_and_read_again_when_it_is_back(
    server_directory,
):
    postgres, port = EmbeddedPostgres(server_directory, port=free_port()), free_port()
    async with postgres:
        await migrate(postgres.url)
        variables = {"ASCERTAIN_LEDGER_URL": postgres.url}
        async with exporter(variables, port):
            await becomes(port, 1, "ascertain_ledger_up")
            await postgres.stop()
            await becomes(port, 0, "ascertain_ledger_up")
            assert set(await series(port)) == {"target_info", "ascertain_ledger_up"}
            await postgres.start()
            await becomes(port, 1, "ascertain_ledger_up")


async def said(*words, **environment):
    process = await asyncio.create_subprocess_exec(
        *(PROGRAM, *words),
        env=environment,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    _, err = await process.communicate()
    return process.returncode, err.decode()


@pytest.mark.parametrize(
    ("command", "option"),
    [("worker", "--metrics"), ("worker", "--temporal-metrics"), ("metrics", "--listen")],
)
async def test_an_address_that_is_taken_ends_a_process_with_what_to_do(
    deployments, command, option
):
    deployment = await deployments()
    with closing(socket.socket()) as other:
        other.bind(("127.0.0.1", free_port()))
        other.listen()
        address = f"127.0.0.1:{other.getsockname()[1]}"
        code, err = await said(command, option, address, **deployment.variables)
    assert code == 7
    assert f"metrics cannot be served at {address}" in err
    assert f"choose another address with {option}" in err
    assert "Traceback" not in err


@pytest.mark.parametrize(
    "command",
    [
        ("worker", "--metrics"),
        ("worker", "--temporal-metrics"),
        ("metrics", "--listen"),
        ("relay", "--metrics"),
    ],
)
async def test_what_is_no_address_is_refused(command):
    code, err = await said(*command, "9464", ASCERTAIN_LEDGER_URL="postgresql://127.0.0.1:9/x")
    assert (code, "'9464' is no address such as 127.0.0.1:9464" in err) == (2, True), err
