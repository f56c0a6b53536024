"""An authority of a test's own, and a TLS end in front of a server that speaks plain text."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import ssl
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

# What a PostgreSQL client sends before TLS, and the server's yes.
SSL_REQUEST = (8).to_bytes(4) + (80877103).to_bytes(4)


@dataclass(frozen=True)
class Pair:
    """A certificate and its key, as PEM files."""

    certificate: Path
    key: Path


class Authority:
    """Signs certificates; ``file`` is what one must trust to trust them."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder = folder
        self._name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
        self._key = ec.generate_private_key(ec.SECP256R1())
        self.file = folder / f"{name}.pem"
        own = x509.BasicConstraints(ca=True, path_length=0)
        signed = self._begun(self._name, self._key).add_extension(own, critical=True)
        self.file.write_bytes(self._signed(signed))

    def issue(self, name: str) -> Pair:
        """A certificate for 127.0.0.1, good for servers and clients."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
        places = x509.SubjectAlternativeName(
            [x509.IPAddress(ipaddress.ip_address("127.0.0.1")), x509.DNSName("server.test")]
        )
        begun = (
            self._begun(subject, key)
            .add_extension(places, critical=False)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        )
        pair = Pair(self._folder / f"{name}.pem", self._folder / f"{name}.key")
        pair.certificate.write_bytes(self._signed(begun))
        pair.key.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        pair.key.chmod(0o600)
        return pair

    def _begun(self, subject: x509.Name, key: ec.EllipticCurvePrivateKey):
        now = datetime.now(UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=1))
            .not_valid_after(now + timedelta(days=1))
        )

    def _signed(self, begun: x509.CertificateBuilder) -> bytes:
        return begun.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


@contextlib.asynccontextmanager
async def tls_end(
    port: int, server: Pair, clients: Authority, *, postgres: bool = False
) -> AsyncIterator[int]:
    """Listen with TLS on a port of 127.0.0.1 that is given back, and hand on to the server on ``port``.

    Who connects must show a certificate of ``clients``. With ``postgres`` the client asks for TLS in
    PostgreSQL's own way first.
    """
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=clients.file)
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_cert_chain(server.certificate, server.key)
    if not postgres:
        context.set_alpn_protocols(["h2"])
    running: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        running.add(asyncio.current_task())
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            if postgres:
                assert await reader.readexactly(len(SSL_REQUEST)) == SSL_REQUEST
                writer.write(b"S")
                await writer.start_tls(context)
            inward, outward = await asyncio.open_connection("127.0.0.1", port)
            await asyncio.gather(_pump(reader, outward), _pump(inward, writer))

    listening = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=None if postgres else context)
    try:
        yield listening.sockets[0].getsockname()[1]
    finally:
        listening.close()
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while content := await reader.read(64 * 1024):
            writer.write(content)
            await writer.drain()
    writer.close()
