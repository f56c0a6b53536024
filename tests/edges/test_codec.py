"""Temporal never sees what a task holds, and whoever may see it can."""

from __future__ import annotations

import asyncio
import json
import os

import httpx
import pytest
from google.protobuf import json_format
from temporalio.api.common.v1 import Payload, Payloads

from ascertain import codec
from ascertain.codec import EncryptionCodec, data_converter, new_key, parse_keys
from ascertain.errors import InvalidSettings, MissingSecret
from tests.cli.conftest import Cli

PLAIN = Payload(metadata={"encoding": b"json/plain"}, data=b'{"card": "4242"}')
TOKEN = "a-token-of-this-test"


def codec_of(*lines: str) -> EncryptionCodec:
    return EncryptionCodec(parse_keys("\n".join(lines), "test"))


async def test_what_is_encrypted_comes_back_and_shows_nothing():
    both = codec_of(new_key("one"))
    (sealed,) = await both.encode([PLAIN])
    assert b"4242" not in sealed.SerializeToString()
    assert await both.decode([sealed]) == [PLAIN]
    assert (await both.encode([PLAIN]))[0].data != sealed.data
    assert await both.decode([PLAIN]) == [PLAIN]  # from before there were keys


async def test_a_rotated_key_decrypts_what_it_encrypted():
    old, new = new_key("old"), new_key("new")
    (sealed,) = await codec_of(old).encode([PLAIN])
    rotated = codec_of(new, old)
    assert await rotated.decode([sealed]) == [PLAIN]
    assert (await rotated.encode([PLAIN]))[0].metadata["ascertain-key"] == b"new"
    with pytest.raises(MissingSecret, match="'old'"):
        await codec_of(new).decode([sealed])


@pytest.mark.parametrize("change", ["data", "key"])
async def test_a_payload_that_was_changed_is_not_believed(change):
    first, second = new_key("one"), new_key("two")
    both = codec_of(first, second)
    (sealed,) = await both.encode([PLAIN])
    if change == "data":
        sealed.data = sealed.data[:-1] + bytes([sealed.data[-1] ^ 1])
    else:
        sealed.metadata["ascertain-key"] = b"two"
    with pytest.raises(ValueError, match="not what was encrypted"):
        await both.decode([sealed])


@pytest.mark.parametrize("text", ["", "# nothing", "a:b", "a:" + "A" * 44, "a b:" + "A" * 43 + "="])
def test_a_file_that_holds_no_keys_says_which_line_and_shows_none(text):
    with pytest.raises(InvalidSettings) as caught:
        parse_keys(text, "keys.txt")
    assert "keys.txt" in str(caught.value)
    assert "AAAA" not in str(caught.value)


def test_without_keys_nothing_is_encrypted(monkeypatch):
    monkeypatch.delenv(codec.KEYS_VARIABLE, raising=False)
    assert data_converter().payload_codec is None
    monkeypatch.setenv(codec.KEYS_VARIABLE, "/no/such/file")
    with pytest.raises(MissingSecret, match="No such file"):
        data_converter()


@pytest.fixture
async def server(cli_with_keys):
    process = await cli_with_keys.start(
        *("codec-server", "--port", "0", "--json", "--origin", "http://ui.example"),
        ASCERTAIN_CODEC_TOKEN=TOKEN,
    )
    ready = json.loads(await asyncio.wait_for(process.stdout.readline(), 60))
    yield ready["ready"]
    process.terminate()
    await process.communicate()


@pytest.fixture
def cli_with_keys(tmp_path) -> Cli:
    keys = tmp_path / "keys"
    keys.write_text(new_key("k1") + "\n")
    environment = {
        "HOME": str(tmp_path),
        "PATH": os.defpath,
        "ASCERTAIN_CODEC_KEYS": str(keys),
        "ASCERTAIN_DATA": str(tmp_path / "no-stack"),
    }
    return Cli(environment, tmp_path)


def sent(*payloads: Payload) -> str:
    return json_format.MessageToJson(Payloads(payloads=payloads))


async def test_the_codec_server_decodes_for_whoever_shows_the_token(server):
    bearer = {"Authorization": f"Bearer {TOKEN}"}
    async with httpx.AsyncClient(base_url=server) as http:
        encoded = await http.post("/encode", content=sent(PLAIN), headers=bearer)
        assert "4242" not in encoded.text
        decoded = await http.post("/decode", content=encoded.text, headers=bearer)
        assert json_format.Parse(decoded.text, Payloads()).payloads[0] == PLAIN
        for headers in ({}, {"Authorization": "Bearer wrong"}, {"Cookie": "ascertain_codec=x"}):
            refused = await http.post("/decode", content=encoded.text, headers=headers)
            assert refused.status_code == 401
        assert (await http.post("/decode", content="x", headers=bearer)).status_code == 400


async def test_a_page_of_the_web_ui_may_ask_after_a_sign_in_and_no_other_page(server):
    ui, other = {"Origin": "http://ui.example"}, {"Origin": "http://evil.example"}
    async with httpx.AsyncClient(base_url=server) as http:
        assert (await http.post("/sign-in", data={"token": "wrong"})).status_code == 401
        signed = await http.post("/sign-in", data={"token": TOKEN})
        assert "HttpOnly" in signed.headers["set-cookie"]
        assert "SameSite=Strict" in signed.headers["set-cookie"]
        allowed = await http.post("/decode", content=sent(PLAIN), headers=ui)
        assert allowed.status_code == 200
        assert allowed.headers["access-control-allow-origin"] == "http://ui.example"
        assert allowed.headers["access-control-allow-credentials"] == "true"
        asked = await http.options("/decode", headers=ui)
        assert asked.headers["access-control-allow-headers"].startswith("authorization")
        refused = await http.post("/decode", content=sent(PLAIN), headers=other)
        assert refused.status_code == 403
        assert "access-control-allow-origin" not in refused.headers


async def test_a_codec_server_without_keys_or_token_does_not_start(cli_with_keys):
    answer = await cli_with_keys("codec-server", code=7)
    assert "set ASCERTAIN_CODEC_TOKEN" in answer.sentence
    answer = await cli_with_keys("codec-server", code=7, ASCERTAIN_CODEC_KEYS=None)
    assert "set ASCERTAIN_CODEC_KEYS" in answer.sentence


async def test_a_new_key_is_one_that_can_be_used(cli_with_keys):
    line = (await cli_with_keys("codec-key", "2027-01")).out
    assert parse_keys(line, "x").current == "2027-01"
    assert "id:key" in (await cli_with_keys("codec-key", "a b", code=7)).sentence
