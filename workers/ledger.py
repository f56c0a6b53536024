"""All workers of a task queue write to one ledger: what it knows to exist another one lets be sent again."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from temporalio.service import RPCError

from ascertain.contracts.poller import mark, process_of
from ascertain.errors import InvalidSettings
from ascertain.ledger.session import place
from ascertain.poller import POLL, asked_everywhere, writers

if TYPE_CHECKING:
    from temporalio.client import Client

    from ascertain.settings import Settings

log = logging.getLogger("ascertain.worker")


async def refuse_another(client: Client, settings: Settings, origin: str) -> None:
    """Raise if others who ask for this deployment's work are known to write to another ledger.

    Two that start in one moment do not see each other; ``ascertain doctor`` sees both.

    Args:
        client: Where they ask.
        settings: The deployment, as this worker sees it.
        origin: Of this worker's ledger.

    Raises:
        InvalidSettings: Some do.
    """
    try:
        asked = await asked_everywhere(client, settings)
    except RPCError as error:
        log.warning("the server does not say who else asks for work (%s)", error.message)
        return
    others = [some for ledger, some in writers(asked).items() if ledger != mark(origin)]
    if not others:
        return
    named = ", ".join(
        f"{process_of(name)} ({ago.total_seconds():.0f} s ago)"
        for some in others
        for name, ago in some.items()
    )
    here = place(settings.ledger_url)
    raise InvalidSettings(
        f"this worker does not start: it would write to the ledger at {here}, and others who asked for work "
        f"of its task queues write to another one, which lets be sent again what this one knows: {named}. "
        "Give all workers of a task queue the same ASCERTAIN_LEDGER_URL. If the ledger was moved on purpose, "
        f"stop all that write to the old one, and start this one {POLL.seconds} s after the last has stopped"
    )
