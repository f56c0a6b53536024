"""The ``compute`` adapter: a function of the deployment's, computed in a process of its own.

::

    [kinds."price.quote"]
    adapter = "compute"
    options = { function = "shop.pricing:quote" }

The function takes the step's input, a dictionary, and returns a JSON value; it changes nothing outside. So it
needs no claim: it is computed at once, and again if its process dies. Only a try that failed is counted from
then on, within the budget, like any other effect.

A function that blocks, leaks or crashes takes along its own process and nothing else.
"""

from __future__ import annotations

import asyncio
import hashlib
from datetime import timedelta
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Final

from pydantic import Field, StringConstraints

from ascertain.adapters import saying
from ascertain.adapters.calculator import Calculators, ChildDied
from ascertain.adapters.declaration import read
from ascertain.contracts.effect import Receipt
from ascertain.contracts.finding import Unknowable
from ascertain.contracts.semantics import Semantics
from ascertain.contracts.value import StrictValue
from ascertain.errors import InvalidSettings, InvalidTask
from ascertain.keys import canonical

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pydantic import JsonValue

    from ascertain.contracts.effect import Effect
    from ascertain.contracts.finding import Finding
    from ascertain.contracts.outcome import Outcome
    from ascertain.ports import Call, Permit, Secrets

_MAX_RESULT: Final = 2000
_INVALID: Final = f"{InvalidTask.__module__}.{InvalidTask.__qualname__}"
_AROUND: Final = timedelta(milliseconds=500)


class ComputeOptions(StrictValue):
    """What a deployment says.

    Attributes:
        function: ``module:name``, importable by the worker.
        processes: Most of them at once, in one worker.
        timeout: Of one computation; its process is ended then.
    """

    function: Annotated[str, StringConstraints(pattern=r"^[\w.]+:\w+$")]
    processes: Annotated[int, Field(ge=1, le=256)] = 2
    timeout: timedelta = timedelta(seconds=4)


def create(kind: str, options: Mapping[str, JsonValue], secrets: Secrets) -> ComputeAdapter:
    """Build the adapter of one kind from its options.

    Raises:
        InvalidSettings: An option is wrong, or there is no such function.
    """
    del secrets
    chosen = read(ComputeOptions, kind, options)
    module, _, name = chosen.function.partition(":")
    try:
        getattr(import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise InvalidSettings(f'kinds."{kind}".options.function: {error}') from error
    return ComputeAdapter(chosen)


class ComputeAdapter:
    """Computes one value; nothing outside changes."""

    def __init__(self, options: ComputeOptions) -> None:
        self._options = options
        module, _, name = options.function.partition(":")
        self._function = (module, name)
        self._calculators: Calculators | None = None

    @property
    def semantics(self) -> Semantics:
        """The result is a function of the input, and whoever computes it twice loses time only."""
        return Semantics(
            pure=True,
            harmless=True,
            in_flight_max=timedelta(0),
            max_duration=self._options.timeout + _AROUND,
        )

    def prepare(self, effect: Effect) -> bytes:
        """Freeze the input as canonical JSON."""
        return canonical(effect.input)

    async def perform(self, call: Call, permit: Permit) -> Outcome:
        """Compute it, in a process that can be ended."""
        if self._calculators is None:
            self._calculators = Calculators(*self._function, self._options.processes)
        permit.check()
        try:
            async with asyncio.timeout(self._options.timeout.total_seconds()):
                answer = await self._calculators.compute(call.frozen)
        except TimeoutError:
            limit = f"{self._options.timeout.total_seconds():g} s"
            return saying.unsent("too_long", f"ended after {limit}")
        except (ChildDied, ValueError):  # also an answer that is longer than any result may be
            return saying.unsent("process_died", "the process that computed it gave no answer")
        if "value" in answer:
            return _judged(call.effect.effect_id, answer["value"])
        # The function's own words may hold anything; only those that are meant for people are kept.
        raised = str(answer.get("raised"))
        if raised == _INVALID:
            return saying.refused("invalid_input", str(answer.get("text")))
        return saying.unsent("raised", f"{self._options.function} raised {raised}")

    async def lookup(self, call: Call, *, within: timedelta) -> Finding:
        """There is nothing outside to ask for."""
        del call, within
        return Unknowable(detail="it is computed, and leaves nothing outside")

    async def aclose(self) -> None:
        """End the processes."""
        if self._calculators is not None:
            await self._calculators.aclose()


def _judged(effect_id: str, computed: JsonValue) -> Outcome:
    try:
        content = canonical(computed)
    except (InvalidTask, TypeError, ValueError, AttributeError):
        return saying.refused("no_json", "what was computed is no JSON value")
    if len(content) > _MAX_RESULT:
        why = f"the result is {len(content)} bytes; at most {_MAX_RESULT} fit: publish it as an object"
        return saying.refused("too_large", why)
    digest = hashlib.sha256(content).hexdigest()
    receipt = Receipt(external_id=effect_id, body={"result": computed}, digest=digest)
    return saying.settled(receipt, "computed")
