"""localstripe, a Stripe-compatible server that nobody here wrote, as a process of its own."""

from __future__ import annotations

import asyncio
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final

from typing_extensions import override

from ascertain.errors import SetupError
from starter.server import Server

if TYPE_CHECKING:
    from collections.abc import Sequence

# It takes any key of this form.
API_KEY: Final = "sk_test_demonstration"
_HOST: Final = Path(__file__).with_name("host.py")


class LocalStripe(Server):
    """localstripe on 127.0.0.1. It ignores the idempotency key: every blind repeat is another charge."""

    name: ClassVar[str] = "localstripe"

    @property
    def url(self) -> str:
        """Its address, without a slash at the end."""
        return f"http://127.0.0.1:{self.port}"

    @override
    async def _prepare(self, lock: int) -> None:
        if find_spec("localstripe") is None:
            raise SetupError(
                "the demonstration needs localstripe, which is not installed: ./run installs it"
            )

    @override
    def _command(self) -> Sequence[str]:
        return (sys.executable, str(_HOST), str(self.port))

    @override
    async def _ready(self) -> bool:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", self.port)
        except OSError:
            return False
        writer.close()
        return True
