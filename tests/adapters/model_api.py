"""An OpenAI-compatible API that keeps books of all work that it was asked for, and billed."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from aiohttp import web

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

USAGE = {"input_tokens": 7, "output_tokens": 11, "total_tokens": 18}


@dataclass
class ModelApi:
    """Its address and its books.

    Attributes:
        polls: How often a job is asked for before it has ended.
        unknown_first: How often a fresh job is not known yet.
        ends: The state in which jobs end.
        status: Other than 200: what a request is answered with, and nothing is done.
    """

    port: int = 0
    polls: int = 1
    unknown_first: int = 0
    ends: str = "completed"
    status: int = 200
    billed: list[dict[str, Any]] = field(default_factory=list)
    asked: dict[str, int] = field(default_factory=dict)
    keys: list[str] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def answer(self, job: str, status: str, model: str) -> dict[str, Any]:
        said = {"id": job, "object": "response", "created_at": 1_700_000_000, "model": model}
        if status == "failed":
            return {**said, "status": status, "error": {"code": "content_policy", "message": "no"}}
        done = status in {"completed", "incomplete"}
        output = [{"content": [{"type": "output_text", "text": "a poem"}]}] if done else []
        return {**said, "status": status, "output": output, "usage": USAGE if done else None}

    async def create(self, request: web.Request) -> web.Response:
        self.keys.append(request.headers["Authorization"])
        if self.status != 200:
            error = {"error": {"code": "told_to", "message": "no"}}
            return web.json_response(error, status=self.status)
        body = await request.json()
        self.billed.append(body)
        job = f"resp_{len(self.billed)}"
        self.asked[job] = 0
        return web.json_response(self.answer(job, "queued", body["model"]))

    async def retrieve(self, request: web.Request) -> web.Response:
        job = request.match_info["job"]
        if job not in self.asked:
            return web.json_response({"error": {"code": "not_found"}}, status=404)
        self.asked[job] += 1
        if self.asked[job] <= self.unknown_first:
            return web.json_response({"error": {"code": "not_found"}}, status=404)
        status = self.ends if self.asked[job] > self.unknown_first + self.polls else "in_progress"
        return web.json_response(self.answer(job, status, "m-1"))

    async def chat(self, request: web.Request) -> web.Response:
        body = await request.json()
        self.billed.append(body)
        said = {
            "id": f"chatcmpl_{len(self.billed)}",
            "created": 1_700_000_000,
            "model": body["model"],
        }
        choices = [{"index": 0, "message": {"role": "assistant", "content": "a poem"}}]
        return web.json_response({**said, "choices": choices, "usage": USAGE})


@contextlib.asynccontextmanager
async def model_api(**how: Any) -> AsyncIterator[ModelApi]:
    api = ModelApi(**how)
    application = web.Application()
    application.router.add_post("/v1/responses", api.create)
    application.router.add_get("/v1/responses/{job}", api.retrieve)
    application.router.add_post("/v1/chat/completions", api.chat)
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    api.port = runner.addresses[0][1]
    try:
        yield api
    finally:
        await runner.cleanup()
