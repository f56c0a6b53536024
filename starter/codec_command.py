"""``ascertain codec-server`` and ``ascertain codec-key``."""

# ruff: noqa: PLC0415 - each command imports what it needs when it runs, so that --help is quick
from __future__ import annotations

import asyncio
import os
import ssl
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from ascertain.cli import option, output
from ascertain.errors import InvalidSettings, MissingSecret

if TYPE_CHECKING:
    from aiohttp import web

TOKEN_VARIABLE: Final = "ASCERTAIN_CODEC_TOKEN"  # noqa: S105 - the variable's name
_SHORTEST_TOKEN: Final = 16


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command(name="codec-server")(codec_server)
    app.command(name="codec-key")(codec_key)


def codec_server(
    *,
    host: Annotated[str, typer.Option(metavar="ADDRESS", help="To listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65_535, help="0: any.")] = 8081,
    origin: Annotated[
        list[str] | None,
        typer.Option(metavar="URL", help="Of a Web UI that may ask; may be given again."),
    ] = None,
    certificate: Annotated[
        Path | None, typer.Option(metavar="FILE", help="For HTTPS, with --key.")
    ] = None,
    key: Annotated[Path | None, typer.Option(metavar="FILE", help="Of the certificate.")] = None,
    as_json: option.Json = False,
) -> None:
    """Decode payloads for the Web UI and the Temporal CLI, for whoever shows $ASCERTAIN_CODEC_TOKEN.

    A browser signs in at /sign-in, the Temporal CLI sends the token with --codec-auth "Bearer TOKEN".
    """
    from ascertain.codec import KEYS_VARIABLE, EncryptionCodec, load_keys
    from starter.codec_server import CodecServer

    keys = load_keys()
    if keys is None:
        raise InvalidSettings(f"no keys: set {KEYS_VARIABLE} to a file of them")
    token = os.environ.get(TOKEN_VARIABLE, "")
    if len(token) < _SHORTEST_TOKEN:
        raise MissingSecret(f"set {TOKEN_VARIABLE} to at least {_SHORTEST_TOKEN} characters")
    server = CodecServer(EncryptionCodec(keys), token, origin or ["http://localhost:8233"])
    asyncio.run(_serve(server.application(), host, port, _tls(certificate, key), as_json=as_json))


def codec_key(
    key_id: Annotated[str, typer.Argument(metavar="ID", help="Of the new key, such as 2027-01.")],
    *,
    as_json: option.Json = False,
) -> None:
    """Print a new key, as a line for the file that $ASCERTAIN_CODEC_KEYS names. Keep it secret."""
    from ascertain.codec import new_key, parse_keys

    line = new_key(key_id)
    parse_keys(line, "the id")
    if as_json:
        output.document({"line": line})
    else:
        output.line(line)


def _tls(certificate: Path | None, key: Path | None) -> ssl.SSLContext | None:
    if certificate is None and key is None:
        return None
    if certificate is None or key is None:
        raise typer.BadParameter("--certificate and --key belong together")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        context.load_cert_chain(certificate, key)
    except OSError as error:
        raise InvalidSettings(f"the certificate cannot be used: {error}") from error
    return context


async def _serve(
    application: web.Application,
    host: str,
    port: int,
    context: ssl.SSLContext | None,
    *,
    as_json: bool,
) -> None:
    from aiohttp import web

    from workers.serve import stop_on_signals

    stop = stop_on_signals()
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    try:
        site = web.TCPSite(runner, host, port, ssl_context=context)
        try:
            await site.start()
        except OSError as error:
            raise InvalidSettings(f"cannot listen on {host}:{port}: {error.strerror}") from error
        bound = runner.addresses[0][1]
        url = f"{'https' if context else 'http'}://{host}:{bound}"
        if as_json:
            output.json_line({"ready": url})
        else:
            output.line(f"ready: {url}")
        output.flush()
        await stop.wait()
    finally:
        await runner.cleanup()
