"""Whole deployments for effects at real outsides: the protocol's, with more kinds."""

from __future__ import annotations

from contextlib import AsyncExitStack
from itertools import count
from typing import TYPE_CHECKING

import pytest

from tests.conform import trials
from tests.effects.outsides import Placed, Street, placed
from tests.protocol.conftest import connected, deploying, deployments

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from temporalio.client import Client

    from starter.postgres import EmbeddedPostgres
    from starter.temporal import TemporalServer

__all__ = ["deployments"]

DATABASE = "outside_of_effects"


@pytest.fixture(scope="session")
async def temporal_client(temporal: TemporalServer) -> Client:
    """One for the whole run, which the deployment that all share can have too."""
    return await connected(temporal)


@pytest.fixture(scope="package")
async def outsides(
    tmp_path_factory: pytest.TempPathFactory, postgres: EmbeddedPostgres
) -> AsyncGenerator[dict[str, Placed]]:
    """Every adapter that makes facts, by its name."""
    folder = tmp_path_factory.mktemp("outsides")
    bank = await postgres.create_database(DATABASE)
    given = {
        "http": ("note.create", trials.http),
        "stripe": ("stripe.charge", trials.stripe),
        "smtp": ("mail.send", trials.smtp),
        "object": ("report.publish", trials.s3),
        "sql": ("account.post", trials.sql(bank)),
        "command": ("video.transcode", trials.command(folder / "videos")),
        "generate": ("text.generate", trials.generate(folder / "texts")),
        "webhook": ("order.notify", trials.webhook),
    }
    async with AsyncExitStack() as stack:
        yield {name: await placed(stack, *each) for name, each in given.items()}
    await postgres.drop_database(DATABASE)


@pytest.fixture(scope="package")
async def street(
    outsides: dict[str, Placed],
    tmp_path_factory: pytest.TempPathFactory,
    postgres: EmbeddedPostgres,
    template: str,
    temporal: TemporalServer,
    temporal_client: Client,
) -> AsyncGenerator[Street]:
    """One deployment with one worker of all of them, for tests that break nothing but an outside."""
    place = tmp_path_factory.mktemp("street")
    async with deploying(place, postgres, template, temporal, temporal_client) as make:
        deployment = await make()
        for each in outsides.values():
            each.serve(deployment)
        # The same outsides, of which the deployment says something else.
        outsides["webhook"].serve(deployment, "order.repeat", idempotent_for=3600, key_margin=5)
        outsides["webhook"].serve(deployment, "order.short", idempotent_for=12, key_margin=1)
        outsides["stripe"].serve(deployment, "short.charge", idempotent_for=3, key_margin=1)
        outsides["stripe"].serve(deployment, "late.charge", lag=60)
        outsides["object"].serve(deployment, "late.publish", lag=60)
        outsides["object"].serve(deployment, "shared.publish", options={"key": "{input.text}"})
        named = {**outsides["command"].table["options"]["publish"], "key": "{input.words}.txt"}
        outsides["command"].serve(deployment, "shared.transcode", options={"publish": named})
        deployment.configure()
        await deployment.worker()
        yield Street(deployment, outsides, count(1))
