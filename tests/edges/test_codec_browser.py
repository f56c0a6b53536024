"""A person with the token reads in the Web UI what a task holds; without it only sealed bytes are shown."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path

import pytest
from temporalio.client import Client

from ascertain.codec import KEYS_VARIABLE, data_converter, new_key
from starter.process import free_port
from starter.temporal import TemporalServer
from tests.protocol.chromium import Chromium

ROOT = Path(__file__).parents[2]
TOKEN = "a-token-of-this-test"
PLANTED = "planted-4242-in-a-task"

pytestmark = [pytest.mark.browser, pytest.mark.timeout(600)]


@pytest.fixture
async def temporal(server_directory):
    """A server of its own, for it serves the Web UI; it holds one sealed task."""
    async with TemporalServer(server_directory, in_memory=True, ui_port=free_port()) as server:
        yield server


@pytest.fixture
async def codec_url(tmp_path, monkeypatch, temporal):
    keys = tmp_path / "keys"
    keys.write_text(new_key("k1") + "\n")
    monkeypatch.setenv(KEYS_VARIABLE, str(keys))
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "ascertain", "codec-server", "--port", "0", "--json"),
        *("--origin", temporal.ui_url),
        cwd=ROOT,
        env={**os.environ, "ASCERTAIN_CODEC_TOKEN": TOKEN},
        stdout=asyncio.subprocess.PIPE,
    )
    ready = await asyncio.wait_for(process.stdout.readline(), 60)
    yield json.loads(ready)["ready"]
    process.terminate()
    await process.wait()


async def test_the_web_ui_shows_what_a_task_holds_to_who_has_signed_in(codec_url, temporal):
    client = await Client.connect(temporal.address, data_converter=data_converter())
    task = {"task_id": "sealed", "note": PLANTED}
    await client.start_workflow("Task", task, id="sealed", task_queue="nobody")
    page = f"{temporal.ui_url}/namespaces/{temporal.namespace}/workflows/sealed"
    async with Chromium() as browser:
        await browser.goto(page)
        shown = await browser.wait_for_text("Results will appear")
        assert PLANTED not in shown
        await browser.goto(f"{codec_url}/sign-in")
        await browser.wait_for_text("Token")
        await browser.click("input")
        await browser.type(TOKEN)
        await browser.click("button", "Sign in")
        await browser.wait_for_text("Signed in")
        await browser.goto(page)
        await browser.click("[data-testid=data-encoder-status]")
        await browser.click("label", "Use my browser setting")
        await browser.click("#data-encoder-endpoint-input")
        await browser.type(codec_url)
        await browser.click("label", "cross-origin credentials")
        await browser.click("[data-testid=confirm-modal-button]", "Apply")
        await browser.goto("about:blank")
        await browser.goto(page)
        await browser.wait_for_text(PLANTED)
