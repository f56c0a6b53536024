"""Act on a message once, in one transaction with what it makes the service do.

For consumers of our events, and of anything else from a queue that repeats. The tables are made by
``ascertain migrate --outbox URL``, in the database where the service acts.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from ascertain import keys
from ascertain.errors import Conflict, InvalidTask
from ascertain.service import transaction

if TYPE_CHECKING:
    from pydantic import JsonValue

    from ascertain.service.transaction import Transaction

LONGEST_ID = 255


async def once(
    connection: Transaction,
    message_id: str,
    *,
    content: JsonValue = None,
    consumer: str = "",
) -> bool:
    """Remember a message in the caller's transaction, and say whether it is new.

    ``if await once(connection, event["id"]): ...`` and then commit: the message and what it did are
    remembered together, or neither is. While another transaction holds the same message this waits for its
    end, so two consumers at once are safe. One statement, and a second one for a repeat with ``content``.

    Args:
        connection: In a transaction, which stays the caller's to commit.
        message_id: 1 to 255 printable characters; of our CloudEvents the ``id``.
        content: What the message says, as JSON; a repeat that says something else is a conflict.
        consumer: Who acts, where several consumers share a database.

    Returns:
        True the first time; False for a repeat, for which nothing is to be done.

    Raises:
        InvalidTask: The id cannot be one, or the content is no JSON.
        Conflict: The same id came before with other content; the first stands.
        SetupError: There is no transaction, so nothing would tie this to the service's own writes.
    """
    if not 0 < len(message_id) <= LONGEST_ID or not message_id.isprintable():
        raise InvalidTask(f"a message id has 1 to {LONGEST_ID} printable characters")
    fingerprint = None if content is None else hashlib.sha256(keys.canonical(content)).hexdigest()
    if await transaction.run(connection, "receive_message", consumer, message_id, fingerprint):
        return True
    if fingerprint is not None:
        ((stored,),) = await transaction.run(connection, "received_message", consumer, message_id)
        if stored is not None and stored != fingerprint:
            raise Conflict(
                f"message {message_id!r} was received before with other content (fingerprint "
                f"{stored[:12]}, now {fingerprint[:12]}); the first stands"
            )
    return False
