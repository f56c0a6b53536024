"""A headless Chromium for tests, over the protocol that its own developer tools speak."""

from __future__ import annotations

import asyncio
import base64
import fcntl
import json
import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

import aiohttp

from tests.waiting import wait_until

FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    # Frames stay in one process, so that what they show can be read; nothing leaves this machine.
    "--disable-features=IsolateSandboxedIframes,IsolateOrigins,site-per-process",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
    "--remote-debugging-port=0",
)
INSTALL = ("apt-get", "install", "-y", "--no-install-recommends", "chromium")
PATIENCE_S = 60
# After so long a person reads the page anew, so often at most.
SOON_S, TRIES = 20, 5


async def program() -> str:
    """Where Chromium is; on Debian as root it is installed if it is not there.

    Raises:
        RuntimeError: It is not there and cannot be installed from here.
    """
    found = await _there()
    if found is None:
        raise RuntimeError(
            "the browser test needs Chromium, and it is not installed: on Debian or Ubuntu run "
            f"`{' '.join(INSTALL)}`, or leave this test out with `./run test -m 'not browser'`"
        )
    return found


async def _there() -> str | None:
    """Look for it, and install it if need be, one test at a time: half of it is not there yet."""
    lock = Path(tempfile.gettempdir()) / f"ascertain-chromium-{os.geteuid()}.lock"
    with lock.open("w") as held:
        await asyncio.to_thread(fcntl.flock, held, fcntl.LOCK_EX)
        if _found() is None and os.geteuid() == 0 and shutil.which("apt-get"):
            for command in (("apt-get", "update", "-qq"), INSTALL):
                quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
                process = await asyncio.create_subprocess_exec(
                    *command, stdout=asyncio.subprocess.DEVNULL, env=quiet
                )
                await process.wait()
        return _found()


def _found() -> str | None:
    names = ("chromium", "chromium-browser", "google-chrome")
    return next((path for name in names if (path := shutil.which(name))), None)


class Chromium:
    """One browser with one page."""

    def __init__(self) -> None:
        self._home = Path(tempfile.mkdtemp(prefix="ascertain-chromium-"))
        self._answers: dict[int, asyncio.Future[Any]] = {}
        self._count = 0

    async def __aenter__(self) -> Self:
        path = await program()
        log = (self._home / "log").open("wb")
        self._process = await asyncio.create_subprocess_exec(
            path,
            *FLAGS,
            f"--user-data-dir={self._home / 'profile'}",
            "about:blank",
            stdin=asyncio.subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env={**os.environ, "HOME": str(self._home)},
        )
        log.close()
        self._session = aiohttp.ClientSession()
        address = await wait_until(self._page, PATIENCE_S, what="a page of Chromium")
        self._socket = await self._session.ws_connect(address, max_msg_size=0)
        self._reading = asyncio.create_task(self._read())
        await self.send(
            "Emulation.setDeviceMetricsOverride",
            width=1180,
            height=980,
            deviceScaleFactor=1,
            mobile=False,
        )
        return self

    async def __aexit__(self, *_exception: object) -> None:
        self._reading.cancel()
        await self._socket.close()
        await self._session.close()
        if self._process.returncode is None:
            self._process.kill()
        await self._process.wait()
        shutil.rmtree(self._home, ignore_errors=True)

    async def goto(self, url: str) -> None:
        """Open a page."""
        await self.send("Page.navigate", url=url)

    async def js(self, expression: str) -> Any:
        """The value of an expression in the page; None while there is no page."""
        answer = await self.send("Runtime.evaluate", expression=expression, returnByValue=True)
        return answer["result"].get("value")

    async def click(self, selector: str, text: str = "") -> None:
        """Wait until something that fits is there to be clicked on and lies still, and click on it."""
        script = f"""(() => {{
            for (const one of document.querySelectorAll({json.dumps(selector)})) {{
                if (!one.innerText.includes({json.dumps(text)})) continue;
                one.scrollIntoView({{block: 'nearest'}});
                const box = one.getBoundingClientRect();
                const [x, y] = [box.x + box.width / 2, box.y + box.height / 2];
                if (one.contains(document.elementFromPoint(x, y))) return [x, y];
            }}
        }})()"""
        before: list[Any] = [None]

        async def at_rest() -> Any:
            now = await self.js(script)
            still, before[0] = now == before[0], now
            return now if still else None

        x, y = await wait_until(at_rest, PATIENCE_S, what=f"a click on {selector} {text!r}")
        for kind in ("mousePressed", "mouseReleased"):
            await self.send(
                "Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1
            )

    async def reach(self, selector: str, text: str, *, shows: str) -> str:
        """Click, and read the page anew where that leads to nothing; all that is shown then."""
        for _ in range(TRIES - 1):
            await self.click(selector, text)
            try:
                return await self.wait_for_text(shows, SOON_S)
            except (
                AssertionError
            ):  # the click was lost, or what the page asked for was not answered
                await self.send("Page.reload")
        await self.click(selector, text)
        return await self.wait_for_text(shows)

    async def type(self, text: str) -> None:
        """Type into what has the focus."""
        await self.send("Input.insertText", text=text)

    async def text(self) -> str:
        """What the page and its frames show."""
        tree = await self.send("Page.getFrameTree")
        return "\n".join([await self._shown(frame) for frame in _frames(tree["frameTree"])])

    async def wait_for_text(self, wanted: str, within_s: float = PATIENCE_S) -> str:
        """All that is shown, once it contains this."""

        async def shown() -> str | None:
            text = await self.text()
            return text if wanted in text else None

        return await wait_until(shown, within_s, what=f"{wanted!r} on the page")

    async def screenshot(self, path: Path) -> None:
        """Keep what the page looks like."""
        answer = await self.send("Page.captureScreenshot", format="png")
        _keep(path, base64.b64decode(answer["data"]))

    async def send(self, method: str, **params: Any) -> Any:
        """One command and its result."""
        self._count += 1
        number, answer = self._count, asyncio.get_running_loop().create_future()
        self._answers[number] = answer
        await self._socket.send_json({"id": number, "method": method, "params": params})
        async with asyncio.timeout(PATIENCE_S):
            return await answer

    async def _shown(self, frame: str) -> str:
        with suppress(RuntimeError):  # a frame that was replaced meanwhile
            world = await self.send("Page.createIsolatedWorld", frameId=frame)
            answer = await self.send(
                "Runtime.evaluate",
                expression="document.body ? document.body.innerText : ''",
                contextId=world["executionContextId"],
                returnByValue=True,
            )
            return str(answer["result"].get("value", ""))
        return ""

    async def _page(self) -> str | None:
        port = self._home / "profile" / "DevToolsActivePort"
        if self._process.returncode is not None:
            raise RuntimeError((self._home / "log").read_text(errors="replace")[-2000:])
        if not port.exists() or not port.read_text().strip():
            return None
        with suppress(aiohttp.ClientError):
            listed = f"http://127.0.0.1:{port.read_text().split()[0]}/json/list"
            async with self._session.get(listed) as answer:
                pages = [page for page in await answer.json() if page["type"] == "page"]
                return pages[0]["webSocketDebuggerUrl"] if pages else None
        return None

    async def _read(self) -> None:
        async for message in self._socket:
            told = json.loads(message.data)
            answer = self._answers.pop(told.get("id", 0), None)
            if answer is None or answer.done():
                continue
            if "error" in told:
                answer.set_exception(RuntimeError(told["error"]["message"]))
            else:
                answer.set_result(told["result"])


def _frames(tree: Any) -> list[str]:
    inner = [frame for child in tree.get("childFrames", ()) for frame in _frames(child)]
    return [tree["frame"]["id"], *inner]


def _keep(path: Path, picture: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(picture)
