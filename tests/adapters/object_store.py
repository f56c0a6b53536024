"""An S3 that nobody here wrote (moto), as a process of its own."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from typing import TYPE_CHECKING, Any

import httpx

from starter.process import free_port

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

BUCKET = "outside"
_SERVE = "import sys; from moto.server import main; main(['-H', '127.0.0.1', '-p', sys.argv[1]])"
_DEADLINE_S = 60
# Not checked, but what comes without one may read nothing.
SIGNED = {
    "Authorization": "AWS4-HMAC-SHA256 Credential=id/20260101/us-east-1/s3/aws4_request, "
    "SignedHeaders=host, Signature=0"
}
IDS = {"S3_ID": "id", "S3_KEY": "key"}


class ObjectStore:
    """Its address, and its own books."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.url = f"http://127.0.0.1:{port}"

    def options(self, port: int | None = None, prefix: str = "") -> dict[str, Any]:
        """How an adapter reaches it, through another port if one is given."""
        return {
            "url": f"s3://{BUCKET}{prefix}",
            "allow_http": True,
            "config": {
                "endpoint": f"http://127.0.0.1:{port or self.port}",
                "region": "us-east-1",
                "access_key_id": "secret:S3_ID",
                "secret_access_key": "secret:S3_KEY",
            },
        }

    async def names(self) -> list[str]:
        async with httpx.AsyncClient(headers=SIGNED) as client:
            listed = await client.get(f"{self.url}/{BUCKET}?list-type=2")
        return [piece.split("</Key>")[0] for piece in listed.text.split("<Key>")[1:]]

    async def read(self, name: str) -> httpx.Response:
        async with httpx.AsyncClient(headers=SIGNED) as client:
            return await client.get(f"{self.url}/{BUCKET}/{name}")

    async def write(self, name: str, content: bytes) -> None:
        async with httpx.AsyncClient(headers=SIGNED) as client:
            (await client.put(f"{self.url}/{BUCKET}/{name}", content=content)).raise_for_status()


@contextlib.asynccontextmanager
async def object_store() -> AsyncIterator[ObjectStore]:
    """A store with one empty bucket."""
    store = ObjectStore(free_port())
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        _SERVE,
        str(store.port),
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        await _made(f"{store.url}/{BUCKET}")
        yield store
    finally:
        process.kill()
        await process.wait()


async def _made(bucket: str) -> None:
    async with asyncio.timeout(_DEADLINE_S), httpx.AsyncClient(headers=SIGNED) as client:
        while True:
            with contextlib.suppress(httpx.TransportError):
                (await client.put(bucket)).raise_for_status()
                return
            await asyncio.sleep(0.05)
