"""A worker says by its name what it serves, and no more than that."""

from __future__ import annotations

import pytest

from ascertain.contracts.poller import Served, ledger_of, mark, poller, process_of, served
from ascertain.settings import KindSettings

PLAIN = {"adapter": "http", "options": {"base_url": "http://a", "key": "secret:KEY"}}


def tables(**kinds: object) -> dict[str, str]:
    return {name: KindSettings.model_validate(table).digest for name, table in kinds.items()}


OURS = tables(a=PLAIN, b=PLAIN)


def test_who_serves_the_same_tables_in_whatever_order_they_stand_serves_the_same():
    turned = {"options": {"key": "secret:KEY", "base_url": "http://a"}, "adapter": "http"}
    assert served(poller("host:1", tables(b=turned, a=turned)), OURS) is Served.SAME
    spelt_out = {**PLAIN, "policy": {"budget": 5, "lease": "PT5S"}, "semantics": {}}
    assert served(poller("host:1", tables(a=PLAIN, b=spelt_out)), OURS) is Served.SAME


@pytest.mark.parametrize(
    "other",
    [
        {**PLAIN, "adapter": "webhook"},
        {**PLAIN, "options": {**PLAIN["options"], "base_url": "http://b"}},
        {**PLAIN, "options": {**PLAIN["options"], "key": "secret:OTHER"}},
        {**PLAIN, "semantics": {"lag": 5}},
        {**PLAIN, "policy": {"lease": "PT4S"}},
        {**PLAIN, "measured": "a.json"},
    ],
)
def test_who_serves_another_table_of_a_kind_is_told_apart(other):
    for identity in ("host:1", "a#host:1"):
        named = poller(identity, tables(a=PLAIN, b=other))
        assert served(named, OURS) is Served.OTHER_TABLES


def test_who_serves_other_kinds_is_told_apart_from_who_serves_other_tables():
    assert served(poller("host:1", tables(a=PLAIN)), OURS) is Served.OTHER_KINDS
    assert served(poller("host:1", tables(a=PLAIN, c=PLAIN)), OURS) is Served.OTHER_KINDS


def test_of_a_worker_that_says_less_only_what_it_says_is_compared():
    assert served("1@host", OURS) is Served.SAME
    *_, kinds = poller("host:1", OURS).split("#")
    assert served(f"host:1#{kinds}", OURS) is Served.SAME  # as release 0.1 names itself
    *_, kinds = poller("host:1", tables(a=PLAIN)).split("#")
    assert served(f"host:1#{kinds}", OURS) is Served.OTHER_KINDS


def test_a_secret_is_in_it_by_its_name_alone(monkeypatch):
    monkeypatch.setenv("ASCERTAIN_SECRET_KEY", "one")
    before = poller("host:1", tables(a=PLAIN))
    monkeypatch.setenv("ASCERTAIN_SECRET_KEY", "another")
    assert poller("host:1", tables(a=PLAIN)) == before


def test_a_worker_says_which_ledger_it_writes_to_beside_what_it_serves():
    named = poller("host:1", OURS, "made then 5")
    assert ledger_of(named) == mark("made then 5") != mark("made then 6")
    assert served(named, OURS) is Served.SAME
    assert served(named, tables(a=PLAIN)) is Served.OTHER_KINDS
    assert served(named, tables(a=PLAIN, b={**PLAIN, "measured": "a"})) is Served.OTHER_TABLES


def test_of_a_worker_that_names_no_ledger_none_is_known():
    named = poller("host:1", OURS)
    *_, kinds = named.split("#")
    for less in (named, f"host:1#{kinds}", "host:1", "1@host", "a#b#c#d"):
        assert ledger_of(less) is None


def test_the_process_of_a_worker_is_what_stands_before_all_that_it_says():
    *_, kinds = poller("host:1", OURS).split("#")
    for named in (poller("host:1", OURS, "5"), poller("host:1", OURS), f"host:1#{kinds}", "host:1"):
        assert process_of(named) == "host:1"
    assert process_of(poller("a#host:1", OURS, "5")) == "a#host:1"
    assert process_of("1@host") == "1@host"
