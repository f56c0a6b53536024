"""What a failed activity may say: its error's own sentence if it is one of ours, else only what kind it is.

Temporal keeps the messages and stack traces of an error and of all its causes in the history, and traces and
logs repeat them. The text of somebody else's error may hold anything, a secret too.
"""

from __future__ import annotations

import asyncio
from typing import Any

from temporalio.exceptions import ApplicationError, FailureError
from temporalio.worker import (
    ActivityInboundInterceptor,
    ExecuteActivityInput,
    Interceptor,
)
from typing_extensions import override

from ascertain.errors import AscertainError


class Discretion(Interceptor):
    """Keeps what others say in their errors out of histories, traces and logs."""

    @override
    def intercept_activity(self, next: ActivityInboundInterceptor) -> ActivityInboundInterceptor:
        """The interceptor of each activity."""
        return _Discreet(next)


class _Discreet(ActivityInboundInterceptor):
    @override
    async def execute_activity(self, input: ExecuteActivityInput) -> Any:
        try:
            return await super().execute_activity(input)
        except (asyncio.CancelledError, FailureError):
            raise
        except AscertainError as error:
            raise ApplicationError(str(error), type=type(error).__name__) from None
        except BaseException as error:  # noqa: BLE001  # adapters may raise anything
            what = f"{type(error).__module__}.{type(error).__qualname__}"
            raise ApplicationError(f"it failed with {what}", type=type(error).__name__) from None
