from __future__ import annotations

from datetime import timedelta
from urllib.parse import urlsplit

from ascertain.contracts.task import Task
from ascertain.ledger.postgres import open_ledger
from ascertain.testing.fault import DropReply
from ascertain.testing.proxy import FaultProxy
from tests.ledger.steps import granted, moved, settled


async def test_it_says_how_much_is_archived_and_a_dry_run_how_much_would_be(deployed, database):
    ledger = await open_ledger(database)
    for name in ("1", "2", "3"):
        await moved(ledger.record(await granted(ledger, name), settled(f"fact-{name}")))
    here = {"ASCERTAIN_LEDGER_URL": database}
    given = ("archive", "--older-than", "0", "--batch", "2")
    told = (await deployed.cli(*given, "--dry-run", "--json", **here)).document
    assert told == {"looked_at": 3, "archived": 3, "dry_run": True}
    said = (await deployed.cli(*given, **here)).out
    assert said == "3 effects were looked at; 3 were archived.\n"
    assert (await deployed.cli(*given, "--json", **here)).document["archived"] == 0
    assert (await ledger.upkeep.archive(timedelta(0))).seen == 0
    await ledger.aclose()


async def test_an_archive_that_loses_the_ledger_says_what_is_archived_already(deployed, database):
    ledger = await open_ledger(database)
    for name in ("1", "2", "3"):
        await moved(ledger.record(await granted(ledger, name), settled(f"fact-{name}")))
    target = urlsplit(database)
    async with FaultProxy(target.hostname, target.port, protocol="bytes") as proxy:
        # The second page begins behind the effect that the first one ended with.
        proxy.inject(DropReply("reset"), match=b"ef1-1")
        url = database.replace(f":{target.port}/", f":{proxy.port}/")
        given = ("archive", "--older-than", "0", "--batch", "1")
        lost = (await deployed.cli(*given, code=6, ASCERTAIN_LEDGER_URL=url)).sentence
    assert lost.startswith("1 and more are archived, and stay so: the ledger at ")
    assert lost.endswith("Give the same command again for the rest")
    assert "nothing" not in lost
    await deployed.cli(*given, ASCERTAIN_LEDGER_URL=database)
    assert (await ledger.upkeep.archive(timedelta(0))).seen == 0
    await ledger.aclose()


async def test_how_old_it_must_be_has_to_be_said(deployed):
    assert "Missing option '--older-than'" in (await deployed.cli("archive", code=2)).sentence


async def test_an_archived_task_is_shown_and_explained_as_before(deployed):
    task_id = deployed.new_id()
    await deployed.client.submit(Task(**deployed.task(task_id, partition="archive-a")))
    await deployed.cli("result", task_id, "--within", "100s")
    await deployed.ledger.upkeep.archive(timedelta(0))
    assert "SETTLED" in (await deployed.cli("show", task_id)).out
    told = (await deployed.cli("explain", task_id)).out
    assert "It exists outside as " in told
    assert "It was sent once and never repeated." in told
