"""The classes of outside that are walked: what each really does, and what is declared of it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Final

from ascertain.contracts.semantics import LookupBy, Policy, Semantics

TICK: Final = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class Scale:
    """How long everything lasts, in ticks of the clock, and how many take part.

    Attributes:
        long_key: Long enough that a lookup becomes conclusive while the key still protects.
        calls: Calls at hand at a time; a worker that was frozen and thaws is one of them.
        askers: Who reconcile at a time: the task's own, and the sweep's.
    """

    lease: int
    in_flight: int
    lag: int
    key: int
    long_key: int
    budget: int
    calls: int
    askers: int = 2


# The smallest figures that keep every rule of time apart: a lease that can be half over, a request that
# outlives it, a lookup that lags behind that, a key that ends.
SMALL: Final = Scale(lease=2, in_flight=1, lag=1, key=4, long_key=7, budget=2, calls=2)
WIDE: Final = Scale(lease=3, in_flight=2, lag=2, key=8, long_key=12, budget=3, calls=3)


@dataclass(frozen=True, slots=True)
class Truth:
    """How an outside really behaves, in ticks.

    Attributes:
        in_flight: Before that a request that was sent can take effect.
        lag: Before that a fact may be missing from an answer; None: it cannot be asked.
        key: So long it honours a key, counted from the first send; 0: not at all.
        jobs: Whether it may accept the work and do it later, after any time.
        shared: Whether its fact stood there before, and carries another effect's mark as well.
    """

    in_flight: int
    lag: int | None = None
    key: int = 0
    jobs: bool = False
    shared: bool = False


@dataclass(frozen=True, slots=True)
class Setting:
    """One world to walk.

    Attributes:
        truth: What the outside does.
        semantics: What the adapter declares of it; honest unless a mutant lies.
        renews: Whether attempts renew their permit before they send.
        people: Whether a person takes part.
        overrides: Whether the person may insist against what is known.
        facts_only: Only facts are counted: a promise is broken, so more cannot hold.
        pause: For how many ticks a process may stand still between its permit's check and the wire.
    """

    name: str
    about: str
    scale: Scale
    truth: Truth
    semantics: Semantics
    policy: Policy
    renews: bool = True
    people: bool = True
    overrides: bool = False
    facts_only: bool = False
    pause: int = 0


def ticks(count: int) -> timedelta:
    """A length of time."""
    return TICK * count


def semantics_of(truth: Truth, *, spare: int = 0) -> Semantics:
    """The honest declaration of an outside; ``spare`` ticks are taken off the life of its key."""
    return Semantics(
        idempotent_for=ticks(truth.key) if truth.key else None,
        key_margin=ticks(truth.in_flight + spare),
        lookup=None if truth.lag is None else LookupBy.KEY,
        lag=ticks(truth.lag or 0),
        in_flight_max=ticks(truth.in_flight),
        max_duration=TICK,
    )


def settings(scale: Scale = SMALL) -> dict[str, Setting]:
    """Every class of outside, by name; two of them once more with a person who may override."""
    quick, lag = scale.in_flight, scale.lag
    at_once = _honest(
        "asked-at-once", "can be asked, shows all at once; no key", scale, Truth(quick, 0)
    )
    keyed = _honest("keyed", "honours the key; cannot be asked", scale, Truth(quick, key=scale.key))
    every = (
        _honest(
            "asked-keyed",
            "can be asked, late; honours the key",
            scale,
            Truth(quick, lag, scale.long_key),
        ),
        _honest(
            "asked",
            "can be asked, late; no key; the deployment allows a re-send past the horizon",
            scale,
            Truth(quick, lag),
        ),
        at_once,
        keyed,
        _honest("neither", "no key, cannot be asked", scale, Truth(quick)),
        _honest(
            "jobs",
            "may accept the work and do it later; can be asked, late; no key",
            scale,
            Truth(quick, lag, jobs=True),
        ),
        _honest(
            "shared",
            "its one fact could prove another effect too",
            scale,
            Truth(quick, 0, shared=True),
        ),
        _insisting("insisting", at_once),
        _insisting("insisting-keyed", keyed),
    )
    return {setting.name: setting for setting in every}


def _insisting(name: str, setting: Setting) -> Setting:
    about = f"as {setting.name}, and the operator may override"
    return replace(setting, name=name, about=about, overrides=True)


def _honest(name: str, about: str, scale: Scale, truth: Truth) -> Setting:
    policy = Policy(
        budget=scale.budget,
        lease=ticks(scale.lease),
        resend_unprotected=bool(truth.lag) and not truth.key,
    )
    return Setting(name, about, scale, truth, semantics_of(truth), policy)
