"""An adapter that has its secret in everything it raises."""

from __future__ import annotations

from datetime import timedelta

from ascertain.contracts.semantics import LookupBy, Semantics


class LeakyAdapter:
    semantics = Semantics(lookup=LookupBy.REFERENCE, in_flight_max=timedelta(0))

    def __init__(self, secret: str) -> None:
        self._secret = secret

    def prepare(self, effect):
        if effect.input.get("leak") == "prepare":
            raise KeyError(self._secret)
        return effect.effect_id.encode()

    async def perform(self, call, permit):
        permit.check()
        raise RuntimeError(f"refused: Authorization: {self._secret}")

    async def lookup(self, call, *, within):
        raise OSError(f"no route with {self._secret}")

    async def listing(self, *, since, within):
        yield ()
        raise ValueError(f"page 2 of {self._secret}")

    async def aclose(self):
        pass


def create(kind, options, secrets):
    return LeakyAdapter(secrets.reveal(options["key"].removeprefix("secret:")))
