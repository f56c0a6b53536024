"""What the toy outside world can be told to do.

``Knobs`` is how it behaves by default. A ``Rule`` replaces parts of that for one key, one reference,
one attempt or the next few requests. All of them are JSON over ``/_control``.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, JsonValue, NonNegativeFloat, model_validator

from ascertain.contracts.value import JsonObject, StrictValue

HttpStatus = Annotated[int, Field(ge=200, le=599)]
JobStatus = Literal["not_found", "running", "failed", "succeeded"]
Filter = Literal["key", "reference", "amount", "id", "list"]


class Answer(StrictValue):
    """A whole reply.

    Attributes:
        status: None: what really happened (201 with the fact, 409, 412, 429 ...), after it happened.
        headers: Added to the reply, or replacing what it has.
        body: JSON to send instead of the natural body.
        text: Text to send instead of the natural body; ``""`` is an empty body.
        encoding: Of ``text``; ``latin-1`` lets a body be sent that is not UTF-8.
        pad_bytes: Makes a natural or JSON body longer by a ``padding`` field of that size.
        after_s: How long nothing is sent first.
    """

    kind: Literal["answer"] = "answer"
    status: HttpStatus | None = None
    headers: dict[str, str] = Field(default_factory=dict)
    body: JsonValue = None
    text: str | None = None
    encoding: Literal["utf-8", "latin-1"] = "utf-8"
    pad_bytes: Annotated[int, Field(ge=0)] = 0
    after_s: NonNegativeFloat = 0.0


class Drop(StrictValue):
    """No byte of a reply: the connection is reset (RST) or closed (FIN).

    Attributes:
        in_body: Before the request's body was read, so the request is discarded and nothing happens.
        after_s: How long the connection stays silent first.
    """

    kind: Literal["drop"] = "drop"
    how: Literal["reset", "close"] = "reset"
    in_body: bool = False
    after_s: NonNegativeFloat = 0.0


class CutOff(StrictValue):
    """The head of ``answer`` with its whole length, ``keep_bytes`` of its body, then the end."""

    kind: Literal["cut_off"] = "cut_off"
    keep_bytes: Annotated[int, Field(ge=0)] = 0
    how: Literal["reset", "close"] = "close"
    answer: Answer = Answer()


class Silence(StrictValue):
    """Nothing for ``seconds``, then the connection is closed without a reply."""

    kind: Literal["silence"] = "silence"
    seconds: NonNegativeFloat


Reply = Annotated[Answer | Drop | CutOff | Silence, Field(discriminator="kind")]


class JobKnobs(StrictValue):
    """The request is accepted with 202 and a job id; the fact comes with the job's success.

    Attributes:
        timeline: Pairs of seconds since acceptance and the job's status from then on. The fact is
            committed at the first ``succeeded``; without one the job waits to be set by hand.
    """

    timeline: tuple[tuple[NonNegativeFloat, JobStatus], ...] = ((0.0, "running"),)

    @model_validator(mode="after")
    def _in_order(self) -> JobKnobs:
        times = [second for second, _ in self.timeline]
        if times != sorted(times):
            msg = "a job's timeline must be in order of time"
            raise ValueError(msg)
        return self


class SubmitKnobs(StrictValue):
    """What a request to do something meets.

    Attributes:
        commit: ``never``, or this many seconds after the request was read; 0 is before the reply.
        reply: What the client gets. It does not change what happens.
        fact_status: The status that the new fact has.
        job: Accept first, do later, by the job's timeline; ``commit`` is then not looked at.
    """

    commit: Literal["never"] | NonNegativeFloat = 0.0
    reply: Reply = Answer()
    fact_status: str = "succeeded"
    job: JobKnobs | None = None


class LookupKnobs(StrictValue):
    """What a request that asks meets.

    Attributes:
        by: What can be asked for; empty: there is no lookup. ``list`` is a listing without a filter,
            ``id`` the address of one fact or job.
        lag_s: How long a committed fact stays out of listings.
        page_size: Most facts in one page.
        reply: ``Answer()`` is the truth; anything else a fault.
    """

    by: tuple[Filter, ...] = ("key", "reference", "amount", "id", "list")
    lag_s: NonNegativeFloat = 0.0
    page_size: Annotated[int, Field(ge=1, le=1000)] = 100
    reply: Reply = Answer()


class Dedupe(StrictValue):
    """Whether a repeated Idempotency-Key is recognised. Keys of requests that did nothing are not kept.

    Attributes:
        by: ``key_and_body`` answers another body under a known key with ``mismatch_status``.
        for_s: How long a key is remembered, from its first request; None: for ever.
        in_flight: While the first request is worked on: wait for its answer, or 409.
        repeat_status: None: the first answer again with ``Idempotent-Replayed: true``; else this status
            and no answer ("exists already").
        unique_reference: Status for a reference that has a fact, whatever the key; None: allowed.
    """

    by: Literal["none", "key", "key_and_body"] = "none"
    for_s: NonNegativeFloat | None = None
    mismatch_status: Literal[400, 409, 422] = 400
    in_flight: Literal["wait", "conflict"] = "wait"
    repeat_status: Literal[409, 412, 422] | None = None
    unique_reference: Literal[409, 412, 422] | None = None


class RateLimit(StrictValue):
    """At most ``per_second`` submits in any second; the others do nothing.

    Attributes:
        retry_after: Sent as it is, so that odd values can be tried; None: no such header.
    """

    per_second: Annotated[int, Field(ge=0)]
    status: Literal[429, 503] = 429
    retry_after: str | None = "1"


class Knobs(StrictValue):
    """How the outside behaves where no rule says otherwise. The default is a plain, honest provider."""

    submit: SubmitKnobs = SubmitKnobs()
    lookup: LookupKnobs = LookupKnobs()
    dedupe: Dedupe = Dedupe()
    rate_limit: RateLimit | None = None


class Rule(StrictValue):
    """Replaces parts of the default knobs for the requests that it fits.

    Rules of the request's key come first, then those of its reference, then the others; within each,
    the oldest one that fits and is not used up. ``submit`` and ``dedupe`` fit submits, ``lookup`` fits
    lookups.

    Attributes:
        attempt: Only this submit (or lookup) of its key: 1 is the first. Requests without a key are
            counted by reference.
        content: Only submits whose JSON object has these fields with these values.
        times: Used up after so many requests; None: never.
    """

    key: str | None = None
    reference: str | None = None
    attempt: Annotated[int, Field(ge=1)] | None = None
    content: JsonObject = Field(default_factory=dict)
    times: Annotated[int, Field(ge=1)] | None = None
    submit: SubmitKnobs | None = None
    dedupe: Dedupe | None = None
    lookup: LookupKnobs | None = None

    @model_validator(mode="after")
    def _says_something(self) -> Rule:
        if self.submit is None and self.dedupe is None and self.lookup is None:
            msg = "a rule needs at least one of submit, dedupe, lookup"
            raise ValueError(msg)
        return self
