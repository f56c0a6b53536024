from __future__ import annotations

import pytest


async def test_a_restore_is_told_once_and_says_what_follows_from_it(deployed, database):
    given = ("--since", "2026-01-01T02:00:00Z", "--reason", "the disk broke", "--request-id", "r1")
    said = await deployed.cli("restored", *given, ASCERTAIN_LEDGER_URL=database)
    assert "is asked for before it is sent" in said.out
    again = await deployed.cli("restored", *given, "--json", ASCERTAIN_LEDGER_URL=database)
    epoch = again.document["epoch"]
    assert (epoch["since"], epoch["by"], epoch["already_applied"]) == (
        "2026-01-01T02:00:00Z",
        "ada",
        True,
    )


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--reason", "x"), "Missing option '--since'"),
        (("--since", "90m"), "Missing option '--reason'"),
        (("--since", "2026-01-01T02:00:00", "--reason", "x"), "names no time zone"),
        (("--since", "yesterday", "--reason", "x"), "is no length of time"),
        (("--since", "2999-01-01T00:00:00Z", "--reason", "x"), "--since lies in the future"),
        (
            ("--since", "90m", "--until", "2020-01-01T00:00:00Z", "--reason", "x"),
            "until, 2020-01-01 00:00:00 UTC, lies in the past, and nothing was changed: name a time to come",
        ),
    ],
)
async def test_a_restore_that_is_told_wrongly_is_refused(deployed, arguments, said):
    assert said in (await deployed.cli("restored", *arguments, code=2)).sentence
