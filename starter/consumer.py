"""Tasks that come as messages of RabbitMQ: acknowledged only once they are durably started.

The broker repeats what was not acknowledged, and a repeat finds its task started. A message that can never
be a task goes to the queue's ``.refused`` queue with the reason, and only then is it acknowledged.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol

import aio_pika
from aio_pika.exceptions import AMQPError, ChannelInvalidStateError
from opentelemetry.metrics import Observation
from pydantic import JsonValue, TypeAdapter, ValidationError

from ascertain import metric
from ascertain.errors import AscertainError, InputError, InvalidTask, Unavailable

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from ascertain.client import Client
    from ascertain.starting import Submitted

log = logging.getLogger("ascertain.consumer")

REASON: Final = "x-ascertain-reason"
_OBJECT: Final = TypeAdapter(dict[str, JsonValue])
_FIRST_PAUSE_S: Final = 0.2
_LONGEST_PAUSE_S: Final = 10.0
_MEASURE_EVERY_S: Final = 5.0


class Message(Protocol):
    """What a consumer sees of a message; aio-pika's fit."""

    @property
    def body(self) -> bytes:
        """The task's JSON."""
        ...

    @property
    def message_id(self) -> str | None:
        """The sender's own id of the message."""
        ...

    @property
    def redelivered(self) -> bool | None:
        """Whether the broker gave it to somebody before."""
        ...

    async def ack(self) -> None:
        """It is dealt with."""
        ...

    async def nack(self, *, requeue: bool = True) -> None:
        """Somebody else shall have it."""
        ...


@dataclass
class Consumer:
    """Starts the task of each message.

    Attributes:
        refuse: Keeps a message that can never be a task, with the reason, durably.
        stop: Set when no new work shall be taken.
        queue: Where the messages come from, for the metrics.
    """

    client: Client
    refuse: Callable[[Message, str], Awaitable[None]]
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    queue: str = ""

    def __post_init__(self) -> None:
        for fate in ("started", "duplicate", "refused", "returned"):
            self._count(fate, 0)  # so that the first one is a rise from nothing
        metric.messages_redelivered.add(0, {"queue": self.queue})

    async def handle(self, message: Message) -> None:
        """Start the task, then acknowledge; while nothing can be started, wait with the message in hand."""
        metric.messages_redelivered.add(int(bool(message.redelivered)), {"queue": self.queue})
        try:
            submitted = await self._patiently(message)
        except InputError as error:
            log.error("message %s is refused: %s", message.message_id, error)  # noqa: TRY400 - the sentence says it all
            await self.refuse(message, str(error))
            await message.ack()
            self._count("refused")
        else:
            await self._say(message, submitted)

    async def _say(self, message: Message, submitted: Submitted | None) -> None:
        if submitted is None:
            await message.nack(requeue=True)
            self._count("returned")
        else:
            await message.ack()
            self._count("duplicate" if submitted.duplicate else "started")

    async def _patiently(self, message: Message) -> Submitted | None:
        """What the start came to; None when we are to stop before it came to anything."""
        pause = _FIRST_PAUSE_S
        while not self.stop.is_set():
            try:
                task = task_of(message.body)
                return await self.client.submit(task, message_id=message.message_id)
            except InputError:
                raise
            except AscertainError as error:
                # A part is down, or set up wrongly: never the message's fault.
                log.warning("%s; next try in %.1f s", error, pause)
                with suppress(TimeoutError):
                    async with asyncio.timeout(pause):
                        await self.stop.wait()
                pause = min(pause * 2, _LONGEST_PAUSE_S)
        return None

    def _count(self, fate: str, number: int = 1) -> None:
        metric.messages.add(number, {"queue": self.queue, "fate": fate})


def task_of(body: bytes) -> dict[str, JsonValue]:
    """The task's JSON.

    Raises:
        InvalidTask: The body is no JSON object.
    """
    try:
        return _OBJECT.validate_json(body)
    except ValidationError:
        raise InvalidTask("the message's body must be a task as a JSON object") from None


class BrokerDown(Unavailable):
    """The message broker does not answer."""

    code = "broker_down"
    part = "broker"


async def consume(
    url: str,
    queue: str,
    client: Client,
    stop: asyncio.Event,
    *,
    prefetch: int,
    on_ready: Callable[[], None],
) -> None:
    """Consume until told to stop; what is in hand then is finished or given back.

    Args:
        url: ``amqp://`` or ``amqps://``.
        queue: Exists already; its messages are tasks as JSON.
        client: Starts them.
        stop: Ends it.
        prefetch: Most messages in hand.
        on_ready: Called once when messages can come.

    Raises:
        BrokerDown: Nobody answers there, or it has no such queue.
    """
    try:
        connection = await aio_pika.connect_robust(url, timeout=10)
        async with connection:
            channel = await connection.channel(publisher_confirms=True)
            await channel.set_qos(prefetch_count=prefetch)
            source = await channel.get_queue(queue)
            refused = await channel.declare_queue(f"{queue}.refused", durable=True)
            work = _Work(channel, queue, refused.name, client, stop)
            tag = await source.consume(work.take)
            measuring = asyncio.create_task(_measure(connection, queue))
            on_ready()
            await stop.wait()
            measuring.cancel()
            await source.cancel(tag)
            await work.finished()
    except (AMQPError, OSError) as error:
        said = str(error) or type(error).__name__
        raise BrokerDown(f"the broker does not serve queue {queue}: {said}") from error


async def _measure(connection: aio_pika.abc.AbstractRobustConnection, queue: str) -> None:
    """How many messages wait, again and again; on a channel of its own, for a refusal would close it."""
    waiting: int | None = None

    def observed() -> Iterable[Observation]:
        return [] if waiting is None else [Observation(waiting, {"queue": queue})]

    metric.observe(metric.MESSAGES_WAITING, observed)
    while True:
        try:
            async with connection.channel() as channel:
                found = await channel.declare_queue(queue, passive=True)
                waiting = found.declaration_result.message_count
        except (AMQPError, ChannelInvalidStateError, OSError):
            waiting = None
        await asyncio.sleep(_MEASURE_EVERY_S)


class _Work:
    """The messages in hand."""

    def __init__(
        self,
        channel: aio_pika.abc.AbstractChannel,
        queue: str,
        refused: str,
        client: Client,
        stop: asyncio.Event,
    ) -> None:
        self._exchange = channel.default_exchange
        self._refused = refused
        self._consumer = Consumer(client, self._refuse, stop, queue)
        self._tasks: set[asyncio.Task[None]] = set()

    async def take(self, message: aio_pika.abc.AbstractIncomingMessage) -> None:
        task = asyncio.create_task(self._handle(message))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def finished(self) -> None:
        await asyncio.gather(*self._tasks)

    async def _handle(self, message: aio_pika.abc.AbstractIncomingMessage) -> None:
        try:
            await self._consumer.handle(message)
        except (AMQPError, ChannelInvalidStateError) as error:
            log.warning("the broker went away and will repeat %s: %s", message.message_id, error)

    async def _refuse(self, message: Message, reason: str) -> None:
        kept = aio_pika.Message(
            message.body,
            message_id=message.message_id,
            headers={REASON: reason},
            delivery_mode=aio_pika.DeliveryMode.PERSISTENT,
        )
        await self._exchange.publish(kept, self._refused, mandatory=True)
