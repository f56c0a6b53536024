from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from ascertain.adapters.reach import REACH, Reach
from ascertain.adapters.wire import Wire
from ascertain.testing.outside import Outside
from tests.adapters.notes import adapter_for

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator
    from pathlib import Path

    from ascertain.adapters.declared import DeclaredAdapter


@pytest.fixture
async def wire() -> AsyncIterator[Wire]:
    wire = Wire()
    yield wire
    await wire.aclose()


@pytest.fixture
async def outside() -> AsyncIterator[Outside]:
    async with Outside() as outside:
        yield outside


@pytest.fixture
async def adapter(outside: Outside) -> AsyncIterator[DeclaredAdapter]:
    async with adapter_for(outside) as adapter:
        yield adapter


@pytest.fixture
def only() -> Iterator[Callable[..., None]]:
    """Adapters that are made from now on may call these hosts and no other."""

    def limit(*hosts: str) -> None:
        REACH.set(Reach(hosts))

    yield limit
    REACH.set(None)


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate for 127.0.0.1 and its key, in one PEM file."""
    folder = tmp_path_factory.mktemp("tls")
    key, cert, both = folder / "key.pem", folder / "cert.pem", folder / "both.pem"
    command = (
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 "
        "-subj /CN=ascertain-test -addext subjectAltName=IP:127.0.0.1"
    )
    files = ["-keyout", str(key), "-out", str(cert)]
    subprocess.run([*command.split(), *files], check=True, capture_output=True)
    both.write_bytes(cert.read_bytes() + key.read_bytes())
    return both
