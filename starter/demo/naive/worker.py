"""A worker for the naive workflow: ``python -m starter.demo.naive.worker``."""

from __future__ import annotations

import asyncio
import os
import signal
from datetime import timedelta
from typing import TYPE_CHECKING, Final
from uuid import uuid4

import httpx
from temporalio import activity
from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.exceptions import ApplicationError
from temporalio.worker import Worker

from starter.demo.naive.workflow import CHARGE, REFUND, TASK_QUEUE, NaivePayment, Order
from workers.worker import identity, sandbox

if TYPE_CHECKING:
    from collections.abc import Mapping

API_BASE: Final = "NAIVE_API_BASE"
API_KEY: Final = "NAIVE_API_KEY"
_DECLINED: Final = 402
_ANSWER_WITHIN: Final = timedelta(seconds=3)


class Payments:
    """The activities. Each attempt is a new request under a new idempotency key."""

    def __init__(self, http: httpx.AsyncClient) -> None:
        self._http = http

    @activity.defn(name=CHARGE)
    async def charge(self, order: Order) -> str:
        """Charge, and give the payment's id."""
        content = order.content
        return await self._create(
            "/v1/payment_intents",
            {
                "amount": str(content["amount"]),
                "currency": str(content["currency"]),
                "payment_method": str(content["payment_method"]),
                "payment_method_types[]": "card",
                "confirm": "true",
                "metadata[effect_id]": order.effect_id,
                "metadata[description]": str(content["description"]),
            },
        )

    @activity.defn(name=REFUND)
    async def refund(self, order: Order) -> str:
        """Take a charge back, and give the refund's id."""
        payment = str(order.content["payment_intent"])
        return await self._create(
            "/v1/refunds",
            {"payment_intent": payment, "metadata[effect_id]": order.effect_id},
        )

    async def _create(self, path: str, form: Mapping[str, str]) -> str:
        answer = await self._http.post(path, data=form, headers={"Idempotency-Key": str(uuid4())})
        if answer.status_code == _DECLINED:
            raise ApplicationError("declined", non_retryable=True)
        created: str = answer.raise_for_status().json()["id"]
        return created


async def main() -> None:
    """Serve until SIGTERM."""
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    client = await Client.connect(
        os.environ["TEMPORAL_ADDRESS"],
        namespace=os.environ["TEMPORAL_NAMESPACE"],
        data_converter=pydantic_data_converter,
    )
    async with httpx.AsyncClient(
        base_url=os.environ[API_BASE],
        auth=(os.environ[API_KEY], ""),
        timeout=_ANSWER_WITHIN.total_seconds(),
    ) as http:
        payments = Payments(http)
        async with Worker(
            client,
            task_queue=TASK_QUEUE,
            workflows=[NaivePayment],
            activities=[payments.charge, payments.refund],
            workflow_runner=sandbox(),
            identity=identity(),
        ):
            await stop.wait()


if __name__ == "__main__":
    asyncio.run(main())
