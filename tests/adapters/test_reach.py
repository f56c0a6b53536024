"""Outsides are called by the deployment's list, whatever a name resolves to."""

from __future__ import annotations

import ssl
from datetime import timedelta

import httpx
import pytest

from ascertain.adapters.reach import REACH, Reach
from ascertain.adapters.transport import AiohttpTransport
from ascertain.testing.outside import Outside


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


async def call(url: str, hosts: list[str]) -> int:
    token = REACH.set(Reach(hosts))
    try:
        second = timedelta(seconds=1)
        transport = AiohttpTransport(
            ssl.create_default_context(), connections=1, connect=second, keep_alive=second
        )
        async with httpx.AsyncClient(transport=transport) as http:
            return (await http.get(url)).status_code
    finally:
        REACH.reset(token)


async def test_a_name_on_the_list_that_resolves_inside_is_not_connected_to():
    async with Outside() as outside:
        url = outside.url.replace("127.0.0.1", "localhost") + "/facts"
        with pytest.raises(httpx.ConnectError):
            await call(url, ["localhost"])
        with pytest.raises(httpx.ConnectError, match="not on the deployment's list"):
            await call(url, ["127.0.0.0/8"])
        assert await call(url, ["localhost", "127.0.0.0/8", "::1"]) == 200
        with pytest.raises(httpx.ConnectError):
            await call(outside.url + "/facts", ["10.0.0.0/8"])
        assert await call(outside.url + "/facts", ["127.0.0.1"]) == 200
