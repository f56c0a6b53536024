"""The search attributes that tasks write must exist before any task writes them."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from temporalio.api.enums.v1 import IndexedValueType
from temporalio.api.operatorservice.v1 import (
    AddSearchAttributesRequest,
    ListSearchAttributesRequest,
)
from temporalio.service import RPCError

from ascertain.contracts import names
from ascertain.errors import SetupError

if TYPE_CHECKING:
    from temporalio.client import Client

log = logging.getLogger("ascertain.worker")

WANTED = {
    **dict.fromkeys(names.KEYWORD_ATTRIBUTES, IndexedValueType.INDEXED_VALUE_TYPE_KEYWORD),
    **dict.fromkeys(names.DATETIME_ATTRIBUTES, IndexedValueType.INDEXED_VALUE_TYPE_DATETIME),
}


async def ensure_search_attributes(client: Client) -> None:
    """Register what is missing in the namespace; an unregistered label would stall tasks for ever.

    Raises:
        SetupError: They are missing and may not be added from here; says exactly which, and how.
    """
    missing = await _missing(client)
    if not missing:
        return
    request = AddSearchAttributesRequest(namespace=client.namespace, search_attributes=missing)
    try:
        await client.operator_service.add_search_attributes(request)
    except RPCError as error:
        flags = " ".join(
            f"--name {name} --type {IndexedValueType.Name(kind).rsplit('_', 1)[-1].title()}"
            for name, kind in missing.items()
        )
        raise SetupError(
            f"namespace {client.namespace} lacks the search attributes {', '.join(missing)} and they "
            f"could not be added ({error.message}); add them with `temporal operator search-attribute "
            f"create --namespace {client.namespace} {flags}`"
        ) from error
    log.info("registered search attributes %s", ", ".join(missing))


async def _missing(client: Client) -> dict[str, IndexedValueType.ValueType]:
    request = ListSearchAttributesRequest(namespace=client.namespace)
    try:
        present = await client.operator_service.list_search_attributes(request)
    except RPCError:
        # Servers that hide the operator service (Temporal Cloud) refuse to list; adding says the rest.
        return dict(WANTED)
    return {name: kind for name, kind in WANTED.items() if name not in present.custom_attributes}
