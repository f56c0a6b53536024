"""The consumer on the real broker of Debian's ``rabbitmq-server``: ``python -m tests.edges.rabbitmq_run``.

Not part of the suite: the package needs root and half a minute. It puts good, repeated and poisonous
messages, kills the consumer again and again, and then counts tasks and what is left in the queues.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Self

import aio_pika
from temporalio.client import Client as TemporalClient

from starter.process import free_port
from starter.temporal import TemporalServer
from tests.protocol.watching import becomes, series
from tests.waiting import wait_until

PROGRAM = next(iter(Path("/usr/lib/rabbitmq/lib").glob("*/sbin/rabbitmq-server")), Path("none"))
EPMD = next(iter(Path("/usr/lib/erlang").glob("erts-*/bin/epmd")), Path("none"))
TASKS, KILLS, PREFETCH = 300, 5, 20


class Broker:
    """RabbitMQ with a folder, a port and an epmd of its own."""

    def __init__(self, folder: Path) -> None:
        self.port, epmd, distribution = free_port(), free_port(), free_port()
        self.url = f"amqp://guest:guest@127.0.0.1:{self.port}/"
        self.environment = {
            **os.environ,
            "HOME": str(folder),
            "ERL_EPMD_PORT": str(epmd),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "RABBITMQ_DIST_PORT": str(distribution),
            "RABBITMQ_NODENAME": "run@localhost",
            "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODE_PORT": str(self.port),
            "RABBITMQ_MNESIA_BASE": str(folder),
            "RABBITMQ_LOG_BASE": str(folder),
            "RABBITMQ_PID_FILE": str(folder / "pid"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "plugins"),
        }
        self._folder = folder

    async def __aenter__(self) -> Self:
        with (self._folder / "broker.log").open("wb") as log:
            self.process = await asyncio.create_subprocess_exec(
                str(PROGRAM), env=self.environment, stdout=log, stderr=log, start_new_session=True
            )

        async def answers():
            try:
                return await aio_pika.connect(self.url, timeout=2)
            except (OSError, aio_pika.exceptions.AMQPError, TimeoutError):
                return None

        connection = await wait_until(answers, 60, what="the broker")
        await connection.close()
        return self

    async def __aexit__(self, *_) -> None:
        os.killpg(self.process.pid, 15)
        await self.process.wait()
        killing = await asyncio.create_subprocess_exec(EPMD, "-kill", env=self.environment)
        await killing.wait()


def task(number: int) -> dict:
    step = {"name": "note", "kind": "note.create", "input": {"n": number}}
    return {"task_id": f"msg-{number}", "kind": "greeting", "steps": [step]}


async def fill(channel) -> None:
    async def publish(body: bytes, message_id: str) -> None:
        message = aio_pika.Message(body, message_id=message_id, delivery_mode=2)
        await channel.default_exchange.publish(message, "tasks")

    for number in range(TASKS):
        await publish(json.dumps(task(number)).encode(), f"m-{number}")
        if number % 10 == 0:  # the sender repeats itself
            await publish(json.dumps(task(number)).encode(), f"m-{number}")
    await publish(b"no json", "bad-1")
    await publish(b'{"task_id": "bad id"}', "bad-2")
    await publish(json.dumps({**task(1), "kind": "other"}).encode(), "bad-3")


async def consumer(
    broker: Broker, temporal: TemporalServer, port: int
) -> asyncio.subprocess.Process:
    environment = {
        "ASCERTAIN_RABBITMQ_URL": broker.url,
        "TEMPORAL_ADDRESS": temporal.address,
        "TEMPORAL_NAMESPACE": temporal.namespace,
    }
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "ascertain", "consume", "--queue", "tasks"),
        *("--prefetch", str(PREFETCH), "--metrics", f"127.0.0.1:{port}", "--json"),
        env={**os.environ, **environment},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    await process.stdout.readline()
    return process


async def main(folder: Path) -> None:
    async with (
        TemporalServer(folder / "temporal", in_memory=True) as temporal,
        Broker(folder) as broker,
    ):
        connection = await aio_pika.connect(broker.url)
        channel = await connection.channel(publisher_confirms=True)
        queue = await channel.declare_queue("tasks", durable=True)
        await fill(channel)
        client = await TemporalClient.connect(temporal.address, namespace=temporal.namespace)

        async def tasks() -> int:
            return (await client.count_workflows("WorkflowType = 'Task'")).count

        for kill in range(KILLS):
            running = await consumer(broker, temporal, free_port())
            goal = TASKS * (kill + 1) // (KILLS + 1)

            async def further(goal=goal):
                return await tasks() >= goal

            await wait_until(further, 120, what=f"{goal} tasks")
            running.kill()
            await running.wait()
        port = free_port()
        running = await consumer(broker, temporal, port)

        async def dealt_with():
            ready = (await channel.declare_queue("tasks", durable=True)).declaration_result
            return ready.message_count == 0 and await tasks() >= TASKS

        await wait_until(dealt_with, 180, what="an empty queue")
        await becomes(port, 0, "ascertain_messages_waiting", queue="tasks")
        shown = await series(port)
        running.terminate()
        code = await running.wait()
        left = (await channel.declare_queue("tasks", durable=True)).declaration_result
        refused = await channel.get_queue("tasks.refused")
        reasons = []
        while (message := await refused.get(fail=False, no_ack=True)) is not None:
            reasons.append((message.message_id, message.headers["x-ascertain-reason"]))
        sys.stdout.write(
            f"{TASKS} tasks in {TASKS + TASKS // 10 + 3} messages, {KILLS} kills, prefetch {PREFETCH}; "
            f"the last consumer ended with {code}\n"
            f"tasks in Temporal: {await tasks()}; left in the queue: {left.message_count}\n"
        )
        for name in ("ascertain_messages_total", "ascertain_messages_redelivered_total"):
            for labels, number in shown[name].items():
                sys.stdout.write(f"the last consumer's {name} {sorted(labels)}: {number:g}\n")
        for message_id, reason in sorted(set(reasons)):
            sys.stdout.write(f"refused {message_id}: {reason}\n")
        del queue
        await connection.close()


if __name__ == "__main__":
    logging.getLogger("aiormq").disabled = True
    place = Path(tempfile.mkdtemp(prefix="ascertain-rabbitmq-"))
    try:
        asyncio.run(main(place))
    finally:
        shutil.rmtree(place, ignore_errors=True)
