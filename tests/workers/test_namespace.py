"""Workers in a namespace that lacks the search attributes: they add them, or say exactly what is missing."""

from __future__ import annotations

import re
from itertools import count

import pytest
from google.protobuf.duration_pb2 import Duration
from temporalio.api.enums.v1 import IndexedValueType
from temporalio.api.operatorservice.v1 import (
    AddSearchAttributesRequest,
    ListSearchAttributesRequest,
)
from temporalio.api.workflowservice.v1 import RegisterNamespaceRequest
from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.service import RPCError

from ascertain.contracts import names
from ascertain.errors import SetupError
from tests.waiting import wait_until
from workers.namespace import WANTED, ensure_search_attributes

# So many of a type a namespace of the development server can have.
COLUMNS = 10
_numbers = count(1)


@pytest.fixture
async def bare(temporal, temporal_client):
    """A client of a new namespace, which has no search attribute of ours."""
    name = f"bare-{next(_numbers)}"
    await temporal_client.workflow_service.register_namespace(
        RegisterNamespaceRequest(
            namespace=name, workflow_execution_retention_period=Duration(seconds=86_400)
        )
    )
    client = await Client.connect(
        temporal.address, namespace=name, data_converter=pydantic_data_converter
    )
    # A new namespace is known everywhere only after a while.
    await wait_until(lambda: _known(client), 60, what="the namespace")
    return client


async def _known(client):
    try:
        return {*await attributes(client), "known"}
    except RPCError:
        return None


async def attributes(client):
    request = ListSearchAttributesRequest(namespace=client.namespace)
    return set((await client.operator_service.list_search_attributes(request)).custom_attributes)


async def add(client, *keywords):
    kind = IndexedValueType.INDEXED_VALUE_TYPE_KEYWORD
    request = AddSearchAttributesRequest(
        namespace=client.namespace, search_attributes=dict.fromkeys(keywords, kind)
    )
    await client.operator_service.add_search_attributes(request)


async def test_what_is_missing_is_added_and_what_is_there_stays(bare):
    await add(bare, names.TASK_KIND, "OfSomebodyElse")
    await ensure_search_attributes(bare)
    assert await attributes(bare) >= {*WANTED, "OfSomebodyElse"}
    await ensure_search_attributes(bare)


async def test_what_cannot_be_added_is_named_with_the_command_that_adds_it(bare):
    await add(bare, *(f"Taken{number}" for number in range(COLUMNS)))
    with pytest.raises(SetupError) as caught:
        await ensure_search_attributes(bare)
    said = str(caught.value)
    assert f"namespace {bare.namespace} lacks the search attributes {', '.join(WANTED)}" in said
    (command,) = re.findall(r"`(temporal operator search-attribute create .*)`", said)
    assert f"--name {names.TASK_STATE_SINCE} --type Datetime" in command
    assert f"--name {names.TASK_STATE} --type Keyword" in command
