"""A real Prometheus beside real workers: every alert and every query of the dashboard is asked of it."""

from __future__ import annotations

import asyncio
import json
import re
from contextlib import asynccontextmanager
from pathlib import Path

import asyncpg
import pytest
import yaml

from ascertain import metric
from ascertain.contracts.effect import State
from ascertain.ledger.migration import Schema, migrate
from ascertain.metric import Sort, Source
from starter.process import free_port
from tests.cli.conftest import PROGRAM
from tests.ledger.steps import effect, granted
from tests.protocol.deployment import step
from tests.protocol.prometheus import running
from tests.protocol.test_watching import census, doubted, watched
from tests.protocol.watching import exporter
from tests.waiting import wait_until

DEPLOY = Path(__file__).parents[2] / "deploy"
RULES = DEPLOY / "prometheus" / "ascertain.rules.yml"
DASHBOARD = json.loads((DEPLOY / "grafana" / "dashboards" / "ascertain.json").read_text())
NAMED = re.compile(r"\b(?:ascertain|temporal)_\w+")
PLANTED = {
    ("AscertainQuarantined", "toy.neither", "eu"),
    ("AscertainPartitionPaused", None, "us"),
    ("AscertainDuplicateEffects", "toy.fact", None),
    ("AscertainOutboxSetAside", None, None),
}
# A loaded machine may really let tasks wait for so long.
SLOW = "AscertainQueueBehind"
WITHIN_S = 60

pytestmark = pytest.mark.prometheus


def queries() -> list[str]:
    """What the dashboard asks, with its variables as they are when nothing is chosen."""
    panels = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
    asked = [target["expr"] for panel in panels for target in panel["targets"]]
    said = {"$kind": ".*", "$partition": ".*", "$__rate_interval": "1m"}
    for variable, text in said.items():
        asked = [query.replace(variable, text) for query in asked]
    return asked


def impatient(folder: Path) -> Path:
    """The rules as they are, but firing at once."""
    rules = yaml.safe_load(RULES.read_text())
    for rule in rules["groups"][0]["rules"]:
        rule.pop("for", None)
    file = folder / "rules.yml"
    file.write_text(yaml.safe_dump(rules))
    return file


async def run(deployment):
    """Smooth tasks, one to be asked for, one in flight, one for a person, a pause and a duplicate."""
    await deployment.worker()
    for name in ("one", "two", "three"):
        await deployment.submit(name, step(), partition="eu")
        await deployment.result(name)
    await doubted(deployment, "asked", partition="eu")
    await deployment.result("asked")
    stuck = await doubted(deployment, "stuck", "toy.neither", "eu")
    await deployment.wait_for_row(stuck, lambda row: row.state is State.QUARANTINED)
    await granted(deployment.ledger, "abandoned", effect=effect("abandoned", partition="eu"))
    await deployment.gate("us", paused=True)
    deployment.make_fact(deployment.effect("one"), amount=1)
    await census(deployment)


@asynccontextmanager
async def relay(deployment, postgres, port):
    """One of an outbox in which an entry can never be started."""
    url = await postgres.create_database("watched_outbox")
    await migrate(url, schema=Schema.SERVICE)
    connection = await asyncpg.connect(url)
    await connection.execute(
        "insert into ascertain.outbox_entries (task_id, content) values ('bad', '[]')"
    )
    await connection.close()
    process = await asyncio.create_subprocess_exec(
        *(PROGRAM, "relay", "--outbox", url, "--metrics", f"127.0.0.1:{port}"),
        env=deployment.variables,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        yield
    finally:
        process.terminate()
        await process.wait()
        await postgres.drop_database("watched_outbox")


async def fired(prometheus):
    return {
        (one["alertname"], one.get("kind"), one.get("partition"))
        for one in (alert["labels"] for alert in (await prometheus.get("alerts"))["alerts"])
        if one["alertname"] != SLOW
    }


async def test_planted_conditions_fire_and_only_they_and_every_query_of_the_dashboard_has_data(
    deployments, tmp_path, postgres
):
    deployment, *ports = await watched(deployments)
    at, relay_at = free_port(), free_port()
    async with (
        exporter(deployment.variables, at),
        relay(deployment, postgres, relay_at),
        running(tmp_path, impatient(tmp_path), [*ports, at, relay_at]) as prometheus,
    ):
        await run(deployment)

        async def as_planted() -> bool:
            return await fired(prometheus) == PLANTED

        await wait_until(as_planted, WITHIN_S, what="the planted alerts and no other")
        await every_rule_works(prometheus)
        for query in queries():

            async def answered(query: str = query) -> bool:
                return bool(await prometheus.query(query))

            await wait_until(answered, WITHIN_S, what=f"data for {query}")
        await every_name_is_there(prometheus)


async def every_rule_works(prometheus):
    (group,) = (await prometheus.get("rules"))["groups"]
    named = [rule["alert"] for rule in yaml.safe_load(RULES.read_text())["groups"][0]["rules"]]
    assert [(rule["name"], rule["health"]) for rule in group["rules"]] == [
        (name, "ok") for name in named
    ]


async def every_name_is_there(prometheus):
    """A misspelt name would only ever give an empty answer."""
    names = set(await prometheus.get("label/__name__/values"))
    # There is no broker here.
    of_messages = {each.shown for each in metric.METRICS if each.source is Source.CONSUMER}
    ours = {
        f"{each.shown}_bucket" if each.sort is Sort.HISTOGRAM else each.shown
        for each in metric.METRICS
    }
    assert ours - of_messages <= names
    used = set(NAMED.findall(RULES.read_text() + json.dumps(DASHBOARD)))
    assert used <= names | of_messages
