"""The connection to Temporal: where it is, and what its silences and refusals mean."""

from __future__ import annotations

import asyncio
import re
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from temporalio.api.errordetails.v1 import NamespaceNotFoundFailure
from temporalio.client import Client
from temporalio.envconfig import ClientConfig, ClientConnectConfig
from temporalio.service import RPCError, RPCStatusCode

from ascertain import telemetry
from ascertain.codec import data_converter
from ascertain.errors import InvalidSettings, InvalidTask, NotFound, TemporalDown

if TYPE_CHECKING:
    from collections.abc import Generator

# Where a Temporal server is if nothing names one.
DEFAULT_ADDRESS = "localhost:7233"

RPC_TIMEOUT: Final = timedelta(seconds=10)
# How the SDK's own client words that TLS ended at the server's certificate, and why.
_UNTRUSTED: Final = re.compile(r"InvalidCertificate\((\w+)")
# How the server words that nobody takes a query; its status is that of other refusals too.
_UNSERVED: Final = "no poller seen for task queue"


async def connect_temporal(profile: str | None = None) -> Client:
    """Connect as the environment says; traces and pydantic values travel.

    Raises:
        TemporalDown: Nothing answers at the configured address.
        InvalidSettings: The address, or Temporal's own configuration, cannot be read.
    """
    chosen = connection(profile)
    named = "target_host" in chosen
    chosen.setdefault("target_host", DEFAULT_ADDRESS)
    try:
        async with asyncio.timeout(RPC_TIMEOUT.total_seconds()):
            return await Client.connect(
                **chosen,
                data_converter=data_converter(),
                interceptors=[telemetry.interceptor()],
            )
    except (RuntimeError, TimeoutError) as error:
        address = chosen.get("target_host")
        untrusted = _UNTRUSTED.search(str(error))
        if untrusted is not None:
            raise InvalidSettings(
                f"the Temporal server at {address} shows a certificate that is not trusted ({untrusted[1]}); "
                "TEMPORAL_TLS_SERVER_CA_CERT_PATH names the file of those that are"
            ) from error
        # Another server beside a deployment would know none of its tasks.
        hint = "start that one again" if named else "start a development stack with `ascertain dev`"
        raise TemporalDown(
            f"no Temporal server answers at {address}: {hint}, or set TEMPORAL_ADDRESS"
        ) from error
    except ValueError as error:
        raise InvalidSettings(f"the connection to Temporal is set wrongly: {error}") from error


def connection(profile: str | None = None) -> ClientConnectConfig:
    """What Temporal's own environment configuration says of the connection.

    Raises:
        InvalidSettings: It cannot be read.
    """
    try:
        return ClientConfig.load_client_connect_config(profile)
    except (RuntimeError, ValueError) as error:
        raise InvalidSettings(f"Temporal's own configuration cannot be read: {error}") from error


@contextmanager
def answered(what: str) -> Generator[None]:
    """Wrap the server's refusals and silences once.

    Raises:
        NotFound: The server knows no such workflow, or it is over.
        InvalidSettings: It has not even the namespace, which says nothing of what is in the right one.
        TemporalDown: It cannot be reached, or did not answer in time.
    """
    try:
        yield
    except RPCError as error:
        if (namespace := _missing_namespace(error)) is not None:
            raise InvalidSettings(
                f"could not {what}: the Temporal server has no namespace {namespace}; TEMPORAL_NAMESPACE, or "
                "Temporal's own configuration, names the one to use"
            ) from error
        if error.status is RPCStatusCode.NOT_FOUND:
            raise NotFound(f"could not {what}: {error.message}") from error
        if error.status is RPCStatusCode.INVALID_ARGUMENT:
            raise InvalidTask(f"could not {what}: {error.message}") from error
        if _UNSERVED in error.message:
            raise TemporalDown(
                f"could not {what}: no worker was seen on its task queue lately, so nobody can answer; start "
                "one with `ascertain worker`"
            ) from error
        raise TemporalDown(f"could not {what}: {error.status.name} {error.message}") from error


def _missing_namespace(error: RPCError) -> str | None:
    """The namespace that the server does not have; it says so by the same status as of a workflow."""
    for detail in error.grpc_status.details:
        failure = NamespaceNotFoundFailure()
        if detail.Unpack(failure):
            return failure.namespace
    return None
