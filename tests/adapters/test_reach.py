"""Outsides are called by the deployment's list, whatever a name resolves to."""

from __future__ import annotations

import ssl
from datetime import timedelta

import httpx
import pytest

from ascertain.adapters import object as object_, smtp
from ascertain.adapters.reach import REACH, Reach
from ascertain.adapters.transport import AiohttpTransport
from ascertain.contracts import outcome
from ascertain.errors import InvalidSettings, LookupDown
from ascertain.settings import Settings
from ascertain.testing.outside import Outside
from tests.adapters.calls import WITHIN, GivenPermit, GivenSecrets, call, effect
from tests.adapters.mail_server import mail_server
from tests.adapters.object_store import IDS, object_store
from workers.registry import build_kinds


@pytest.mark.parametrize(
    ("host", "admitted"),
    [
        ("api.example.com", True),
        ("API.EXAMPLE.COM.", True),
        ("pay.shop.example", True),
        ("shop.example", False),
        ("api.example.com.evil.example", False),
        ("10.1.2.3", True),
        ("10.1.3.3", False),
        ("8.8.8.8", False),
        ("[::1]", False),
    ],
)
def test_a_host_is_admitted_by_its_name_or_listed_address(host, admitted):
    reach = Reach(["api.example.com", "*.shop.example", "10.1.2.0/24"])
    assert reach.admits_host(host) is admitted


@pytest.mark.parametrize(
    ("address", "admitted"),
    [
        ("8.8.8.8", True),
        ("10.1.2.3", True),
        ("10.1.3.3", False),
        ("127.0.0.1", False),
        ("169.254.169.254", False),
        ("::1", False),
        ("fe80::1%eth0", False),
        ("::ffff:169.254.169.254", False),
        ("2606:4700::1111", True),
    ],
)
def test_an_address_that_is_not_public_is_admitted_only_where_it_is_listed(address, admitted):
    assert Reach(["api.example.com", "10.1.2.0/24"]).admits_address(address) is admitted


async def status_of(url: str, hosts: list[str]) -> int:
    second = timedelta(seconds=1)
    transport = AiohttpTransport(
        ssl.create_default_context(),
        connections=1,
        connect=second,
        keep_alive=second,
        reach=Reach(hosts),
    )
    async with httpx.AsyncClient(transport=transport) as http:
        return (await http.get(url)).status_code


async def test_a_name_on_the_list_that_resolves_inside_is_not_connected_to():
    async with Outside() as outside:
        url = outside.url.replace("127.0.0.1", "localhost") + "/facts"
        with pytest.raises(httpx.ConnectError):
            await status_of(url, ["localhost"])
        with pytest.raises(httpx.ConnectError, match="not on the deployment's list"):
            await status_of(url, ["127.0.0.0/8"])
        assert await status_of(url, ["localhost", "127.0.0.0/8", "::1"]) == 200
        with pytest.raises(httpx.ConnectError):
            await status_of(outside.url + "/facts", ["10.0.0.0/8"])
        assert await status_of(outside.url + "/facts", ["127.0.0.1"]) == 200


@pytest.mark.parametrize(
    "address", ["::127.0.0.1", "64:ff9b::a00:1", "2002:a00:1::", "2002:7f00:1::1"]
)
def test_an_address_that_leads_to_one_that_is_not_public_is_not_public(address):
    assert not Reach(["api.example.com"]).admits_address(address)


MAIL = effect("mail.send", {"to": ["ann@example.org"], "subject": "s", "text": "t"})


async def mail(host: str, port: int):
    options = {"host": host, "port": port, "sender": "shop@example.com", "encryption": "none"}
    adapter = smtp.create("mail.send", options, GivenSecrets())
    return await adapter.perform(call(MAIL, adapter.prepare(MAIL)), GivenPermit())


async def test_a_mail_server_is_connected_to_by_an_address_that_was_looked_at(only):
    async with mail_server() as server:
        for hosts in (["mail.example"], ["localhost"], ["127.0.0.0/8"]):
            only(*hosts)
            came_to = await mail("localhost", server.port)
            assert isinstance(came_to, outcome.NotDone), hosts
            assert came_to.error_class == "not_listed"
        only("localhost", "127.0.0.0/8", "::1")
        assert isinstance(await mail("localhost", server.port), outcome.Settled)
    assert (await mail("localhost", server.port)).error_class == "connection_refused"
    assert len(server.mails) == 1


async def test_a_store_is_used_only_where_its_host_leads_to_an_admitted_address(only):
    what = effect("report.publish", {"text": "t"})

    def publishing(store, endpoint: str):
        options = store.options(prefix="/reach")
        options["config"]["endpoint"] = endpoint
        return object_.create(
            "report.publish", {**options, "key": "{effect_id}"}, GivenSecrets(IDS)
        )

    async with object_store() as store:
        named = store.url.replace("127.0.0.1", "localhost")
        for endpoint, hosts in (
            (store.url, ["localhost"]),
            (named, ["127.0.0.1"]),
            (named, ["localhost"]),
        ):
            only(*hosts)
            adapter = publishing(store, endpoint)
            frozen = adapter.prepare(what)
            came_to = await adapter.perform(call(what, frozen), GivenPermit())
            assert isinstance(came_to, outcome.NotDone)
            assert came_to.error_class == "not_reached"
            with pytest.raises(LookupDown):
                await adapter.lookup(call(what, frozen), within=WITHIN)
        only("localhost", "127.0.0.1", "::1")
        came_to = await publishing(store, named).perform(call(what, frozen), GivenPermit())
        assert isinstance(came_to, outcome.Settled)


def test_a_store_whose_endpoint_is_not_said_cannot_be_held_against_the_list(only, tmp_path):
    only("s3.eu-central-1.amazonaws.com")
    options = {"url": "s3://reports", "key": "{effect_id}"}
    with pytest.raises(InvalidSettings, match="name the store's endpoint"):
        object_.create("report.publish", options, GivenSecrets())
    object_.create("report.publish", {**options, "url": f"file://{tmp_path}/o"}, GivenSecrets())


async def test_a_deployment_files_list_holds_for_every_adapter_that_is_made_from_it():
    async with Outside() as outside:
        options = {
            "base_url": outside.url,
            "request": {"method": "POST", "url": "/facts", "json": {"reference": "{effect_id}"}},
            "proof": {"external_id": "id", "equals": {"reference": "{effect_id}"}},
        }
        kinds = {"k": {"adapter": "http", "options": options}}
        what = effect("k", {})
        for hosts, expected in (
            (["api.example.com"], outcome.NotDone),
            (["127.0.0.1"], outcome.Settled),
        ):
            chosen = Settings.model_validate({"kinds": kinds, "outside": {"hosts": hosts}})
            adapter = build_kinds(chosen, GivenSecrets())["k"].adapter
            REACH.set(None)  # the list is the adapter's own from here on
            came_to = await adapter.perform(call(what, adapter.prepare(what)), GivenPermit())
            assert isinstance(came_to, expected)
            await adapter.aclose()
