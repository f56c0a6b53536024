"""A mail server and an OpenAI-compatible API, with books: the two outsides that no package brings ready.

Arguments: the mail server's port and the API's. ``GET /books`` on the latter tells what has happened.
"""

# ruff: noqa: INP001 - a script, not a package
from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web
from aiosmtpd.controller import Controller


@dataclass
class Books:
    """What really happened, as seen from here."""

    mails: list[str] = field(default_factory=list)
    generations: list[dict[str, Any]] = field(default_factory=list)

    async def handle_DATA(self, _server: object, _session: object, envelope: Any) -> str:  # noqa: ANN401, N802
        """Take a mail (aiosmtpd calls this)."""
        self.mails.append(envelope.content.decode("utf-8", errors="replace"))
        return "250 OK"

    async def create(self, request: web.Request) -> web.Response:
        """Begin work in the background."""
        self.generations.append(await request.json())
        return web.json_response(self._answer(len(self.generations), "queued"))

    async def retrieve(self, request: web.Request) -> web.Response:
        """Work that was begun has ended by the time that somebody asks for it."""
        return web.json_response(self._answer(int(request.match_info["number"]), "completed"))

    async def told(self, _request: web.Request) -> web.Response:
        """Everything."""
        return web.json_response({"mails": self.mails, "generations": self.generations})

    def _answer(self, number: int, status: str) -> dict[str, object]:
        usage = {"input_tokens": 5, "output_tokens": 8, "total_tokens": 13}
        output = [{"content": [{"type": "output_text", "text": "Tea: a pause with taste."}]}]
        told = {"id": f"resp_{number}", "status": status, "model": "example-1", "created_at": 1}
        return {**told, "output": output, "usage": usage} if status == "completed" else told


async def main(mail_port: int, api_port: int) -> None:
    """Serve until SIGTERM."""
    books = Books()
    Controller(books, hostname="127.0.0.1", port=mail_port).start()
    application = web.Application()
    application.router.add_post("/v1/responses", books.create)
    application.router.add_get(r"/v1/responses/resp_{number:\d+}", books.retrieve)
    application.router.add_get("/books", books.told)
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", api_port).start()
    sys.stdout.write("listening on both ports\n")
    sys.stdout.flush()
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(*map(int, sys.argv[1:])))
