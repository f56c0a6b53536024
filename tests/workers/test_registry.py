"""From a deployment file to kinds, and what is said when that is not possible."""

from __future__ import annotations

import json
import sys
from datetime import timedelta

import pytest

from ascertain.errors import InvalidSettings
from ascertain.settings import Settings, load
from tests.adapters.calls import GivenSecrets
from workers.registry import build_kinds


def settings(adapter: str, **options: object) -> Settings:
    return Settings.model_validate({"kinds": {"k": {"adapter": adapter, "options": options}}})


def long_work(task_queue: str) -> Settings:
    chosen = {"adapter": "compute", "options": {"function": "math:sqrt"}}
    kinds = {"k": {**chosen, "semantics": {"max_duration": 3600}}}
    return Settings.model_validate({"task_queue": task_queue, "kinds": kinds})


def test_long_work_of_two_deployments_goes_to_two_task_queues():
    named = [build_kinds(long_work(name), GivenSecrets())["k"].queue for name in ("shop", "bank")]
    assert named == ["shop-k", "bank-k"]


def test_a_worker_of_one_kinds_usual_task_queue_holds_its_adapter_and_no_other_one_does():
    settings = long_work("shop")
    assert build_kinds(settings, GivenSecrets(), ["shop-k"])["k"].adapter is not None
    foreign = build_kinds(settings, GivenSecrets(), ["ascertain-k"])["k"]
    assert (foreign.adapter, foreign.queue) == (None, "shop-k")


def test_a_package_that_an_adapter_needs_and_that_is_missing_is_named_with_the_way_to_install_it(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.delitem(sys.modules, "ascertain.adapters.smtp", raising=False)
    monkeypatch.setitem(sys.modules, "aiosmtplib", None)
    with pytest.raises(InvalidSettings, match=r"aiosmtplib.*pip install 'ascertain\[smtp\]'"):
        build_kinds(settings("smtp"), GivenSecrets())


def test_an_unknown_adapter_is_told_with_those_that_there_are():
    with pytest.raises(InvalidSettings, match=r"no adapter is named fax; there are: .*smtp"):
        build_kinds(settings("fax"), GivenSecrets())
    meant = r"no adapter is named stmp \(did you mean smtp\?\); there are: "
    with pytest.raises(InvalidSettings, match=meant):
        build_kinds(settings("stmp"), GivenSecrets())


KIND = '[kinds."a.b"]\nadapter = "compute"\noptions = { function = "math:sqrt" }\n'


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[kinds", "is not TOML: Expected ']'"),
        ('url = "caf\xe9"', "is not UTF-8: byte 11 cannot be read"),
        ("[ledgr]", ": ledgr: there is no such field (did you mean ledger?)"),
        (f"{KIND}policy = {{ lease = 90 }}", ': kinds."a.b".policy: lease bounds sending'),
        (KIND.replace("math:sqrt", "math"), ': kinds."a.b".options.function: '),
        (f"{KIND}semantics = {{ lagg = 1 }}", ': kinds."a.b".semantics.lagg: there is no such'),
        (KIND.replace("compute", "compte"), ': kinds."a.b".adapter: no adapter is named compte'),
    ],
)
def test_whatever_is_wrong_with_a_deployment_file_is_told_with_the_file_and_the_key(
    tmp_path, text, said
):
    file = tmp_path / "shop.toml"
    file.write_bytes(text.encode("latin-1"))
    with pytest.raises(InvalidSettings) as caught:
        build_kinds(load(file), GivenSecrets())
    assert str(caught.value).startswith(
        f"the deployment file {file}{said if said[0] == ':' else ''}"
    )
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def measured(tmp_path, **changes):
    """A deployment whose kind names what was measured of it."""
    file = tmp_path / "measured.json"
    seen = {"kind": "k", "adapter": "compute", "measured_at": "2026-01-02T00:00:00Z", **changes}
    file.write_text(json.dumps(seen))
    chosen = {"adapter": "compute", "options": {"function": "math:sqrt"}, "measured": str(file)}
    return Settings.model_validate(
        {"kinds": {"k": {**chosen, "semantics": {"idempotent_for": 3600, "lookup": "key"}}}}
    )


def test_a_measured_contract_takes_off_what_was_declared_too_much_and_says_so(tmp_path, caplog):
    seen = measured(tmp_path, failed=["key", "lookup_lag"], key_honoured=False, lag=7)
    semantics = build_kinds(seen, GivenSecrets())["k"].semantics
    assert (semantics.idempotent_for, semantics.lookup) == (None, "key")
    assert semantics.lag == timedelta(seconds=7)
    assert "kind k declares more than was measured: limited idempotent_for, lag" in caplog.text


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"failed": ["key", "one_request"]}, "failed one_request: mend it"),
        ({"adapter": "other:create"}, "was measured of other:create, not of compute"),
        ({"measured_at": None}, "is no measured contract: measured_at"),
    ],
)
def test_a_measured_contract_that_cannot_count_is_refused(tmp_path, changes, why):
    with pytest.raises(InvalidSettings, match=why):
        build_kinds(measured(tmp_path, **changes), GivenSecrets())


def test_a_measured_contract_that_is_missing_is_named(tmp_path):
    settings = measured(tmp_path)
    (tmp_path / "measured.json").unlink()
    with pytest.raises(InvalidSettings, match=r"measured\.json cannot be read: No such file"):
        build_kinds(settings, GivenSecrets())
