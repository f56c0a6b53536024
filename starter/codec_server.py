"""A codec server: lets the Web UI and the Temporal CLI show payloads to people who may see them.

Source:
    Temporal's page on codec servers: POST /encode and /decode with JSON payloads, and what a browser needs.
"""

from __future__ import annotations

import html
import secrets
from typing import TYPE_CHECKING, Final

from aiohttp import web
from google.protobuf import json_format
from temporalio.api.common.v1 import Payloads

from ascertain.errors import AscertainError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection

    from temporalio.converter import PayloadCodec

    Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

COOKIE: Final = "ascertain_codec"
_MAX_BYTES: Final = 8 * 1024 * 1024
_PAGE: Final = """<!doctype html><title>Codec server</title>
<form method="post"><label>Token <input name="token" type="password" autofocus></label>
<button>Sign in</button></form><p>{said}</p>"""


class CodecServer:
    """Encodes and decodes for whoever shows the token, in a header or in the cookie of a sign-in."""

    def __init__(self, codec: PayloadCodec, token: str, origins: Collection[str]) -> None:
        """Say who is let in.

        Args:
            codec: Does the work.
            token: The one secret of everybody who may read.
            origins: Of the Web UIs whose pages may ask, such as ``https://temporal.example``.
        """
        self._codec = codec
        self._token = token.encode()
        self._origins = frozenset(origins)

    def application(self) -> web.Application:
        """The server's routes."""
        application = web.Application(client_max_size=_MAX_BYTES, middlewares=[self._cross_origin])
        for way in ("encode", "decode"):
            application.router.add_post(f"/{way}", self._answer(way))
            application.router.add_route("OPTIONS", f"/{way}", _nothing)
        application.router.add_get("/sign-in", _form)
        application.router.add_post("/sign-in", self._sign_in)
        return application

    @web.middleware
    async def _cross_origin(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        origin = request.headers.get("Origin")
        try:
            response = await handler(request)
        except web.HTTPException as refused:
            response = web.Response(status=refused.status, text=refused.text)
        if origin in self._origins:
            response.headers.update(
                {
                    "Access-Control-Allow-Origin": origin,
                    "Access-Control-Allow-Credentials": "true",
                    "Access-Control-Allow-Methods": "POST",
                    "Access-Control-Allow-Headers": "authorization,content-type,x-namespace",
                    "Vary": "Origin",
                }
            )
        response.headers["Cache-Control"] = "no-store"
        return response

    def _answer(self, way: str) -> Handler:
        async def answer(request: web.Request) -> web.StreamResponse:
            origin = request.headers.get("Origin")
            if origin is not None and origin not in self._origins:
                raise web.HTTPForbidden(text="this origin may not ask")
            if not self._may(request):
                raise web.HTTPUnauthorized(text="show the token, or sign in at /sign-in")
            try:
                asked = json_format.Parse(await request.text(), Payloads())
            except (json_format.ParseError, UnicodeDecodeError):
                raise web.HTTPBadRequest(text="must be Temporal payloads as JSON") from None
            work = self._codec.encode if way == "encode" else self._codec.decode
            try:
                done = Payloads(payloads=await work(asked.payloads))
            except (AscertainError, ValueError) as error:
                raise web.HTTPBadRequest(text=str(error)) from error
            return web.Response(
                text=json_format.MessageToJson(done), content_type="application/json"
            )

        return answer

    def _may(self, request: web.Request) -> bool:
        scheme, _, shown = request.headers.get("Authorization", "").partition(" ")
        given = shown if scheme.lower() == "bearer" else request.cookies.get(COOKIE, "")
        return secrets.compare_digest(given.encode(), self._token)

    async def _sign_in(self, request: web.Request) -> web.StreamResponse:
        given = str((await request.post()).get("token", ""))
        if not secrets.compare_digest(given.encode(), self._token):
            return _page("That is not the token.", status=401)
        response = _page("Signed in. The Web UI can decode now.", status=200)
        response.set_cookie(
            COOKIE, given, httponly=True, samesite="Strict", secure=request.secure, path="/"
        )
        return response


async def _nothing(_: web.Request) -> web.StreamResponse:
    return web.Response(status=204)


async def _form(_: web.Request) -> web.StreamResponse:
    return _page("", status=200)


def _page(said: str, status: int) -> web.Response:
    text = _PAGE.format(said=html.escape(said))
    return web.Response(text=text, content_type="text/html", status=status)
