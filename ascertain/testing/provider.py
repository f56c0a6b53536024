"""What the toy outside world does with a submit: nothing, a fact now or later, or a known answer.

How the reply then travels is not decided here: a fact does not care who hears of it.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from ascertain.contracts.value import JsonObject
from ascertain.testing.books import Books, now
from ascertain.testing.entry import (
    ChangeEntry,
    Draft,
    Fact,
    PendingEntry,
    Ruling,
    Submission,
    SubmitEntry,
)
from ascertain.testing.knob import Dedupe, JobStatus, Knobs, SubmitKnobs
from ascertain.testing.rulebook import RateMeter

_ENTERED = {"method", "key", "reference", "sha256", "size_bytes", "headers", "peer_port"}
_REPLAYED = {"Idempotent-Replayed": "true"}


@dataclass(frozen=True, slots=True)
class Natural:
    """The reply that tells the truth."""

    status: int
    body: JsonObject
    headers: dict[str, str] = field(default_factory=dict[str, str])


def error(status: int, code: str, headers: dict[str, str] | None = None) -> Natural:
    """A truthful refusal; ``code`` is a stable word."""
    return Natural(status, {"error": {"code": code}}, headers or {})


@dataclass(frozen=True, slots=True)
class _Known:
    """What an Idempotency-Key stands for: a fact, or work that is to become one."""

    sha256: str
    since: datetime
    pending_id: str | None = None
    fact_id: str | None = None

    def alive(self, dedupe: Dedupe) -> bool:
        return dedupe.for_s is None or now() < self.since + timedelta(seconds=dedupe.for_s)


@dataclass(frozen=True, slots=True)
class Decision:
    """What became of a submit, and the true reply: known now, or when pending work is done."""

    ruling: Ruling
    reply: Natural | None = None
    waits_for: str | None = None


class Provider:
    """Commits facts into the books, honours keys, keeps jobs going.

    Needs a running event loop: its timers carry the later commits.
    """

    def __init__(self, books: Books) -> None:
        self._books = books
        self._meter = RateMeter()
        self._known: dict[str, _Known] = {}
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._done: dict[str, asyncio.Event] = {}
        for fact in books.facts:
            self._remember(fact, fact_id=fact.id)
        for work in books.unfulfilled():
            self._remember(work.draft, pending_id=work.id)
            self._wait_until_due(work)

    def submit(self, submission: Submission, attempt: int, knobs: Knobs) -> Decision:
        """Decide, enter it in the books, and let it happen."""
        at = now()
        decision = self._decide(submission, knobs)
        entered = submission.model_dump(include=_ENTERED)
        self._books.write(SubmitEntry(at=at, attempt=attempt, ruling=decision.ruling, **entered))
        if decision.reply is not None or decision.waits_for is not None:
            return decision
        return self._do(submission, knobs.submit, decision.ruling, at)

    def refuse(self, submission: Submission, attempt: int, ruling: Ruling) -> None:
        """Enter a submit that is not even looked at."""
        entered = submission.model_dump(include=_ENTERED)
        self._books.write(SubmitEntry(at=now(), attempt=attempt, ruling=ruling, **entered))

    async def reply(self, decision: Decision) -> Natural:
        """The true reply, when it is known."""
        if decision.waits_for is not None:
            await self._done[decision.waits_for].wait()
            fact = self._books.fulfilled_by(decision.waits_for)
            if fact is None:
                return error(503, "cleared")
            headers = _REPLAYED if decision.ruling == "replayed" else {}
            return _created(fact, headers)
        if decision.reply is None:
            msg = f"a {decision.ruling} submit without a reply"
            raise AssertionError(msg)
        return decision.reply

    def job(self, job_id: str) -> Natural:
        """The status of a job as its address tells it now."""
        work = self._books.pending(job_id)
        status = "not_found" if work is None else self._job_status(work)
        if work is None or status == "not_found":
            return error(404, "no_such_job")
        body: JsonObject = {"job_id": job_id, "status": status, "key": work.draft.key}
        fact = self._books.fulfilled_by(job_id)
        if fact is not None:
            body["fact"] = fact.public()
        return Natural(200, body)

    def set_job(self, job_id: str, status: JobStatus) -> bool:
        """Set a job's status by hand; ``succeeded`` commits its fact. False: no such job."""
        work = self._books.pending(job_id)
        if work is None or not work.job:
            return False
        timer = self._timers.pop(job_id, None)
        if timer is not None:
            timer.cancel()
        self._books.write(ChangeEntry(id=job_id, status=status))
        if status == "succeeded":
            self._fulfil(job_id)
        return True

    def forget(self) -> None:
        """Stop all timers, wake who waits, and forget every key."""
        for timer in self._timers.values():
            timer.cancel()
        for done in self._done.values():
            done.set()
        self._timers.clear()
        self._known.clear()

    def _decide(self, submission: Submission, knobs: Knobs) -> Decision:
        return (
            self._throttled(knobs)
            or _ignored(submission, knobs.submit)
            or self._repeated(submission, knobs.dedupe)
            or self._refused(submission, knobs.dedupe)
            or Decision(_to_do(knobs.submit))
        )

    def _throttled(self, knobs: Knobs) -> Decision | None:
        limit = knobs.rate_limit
        if limit is None or self._meter.admits(limit, asyncio.get_running_loop().time()):
            return None
        headers = {} if limit.retry_after is None else {"Retry-After": limit.retry_after}
        return Decision("throttled", error(limit.status, "slow_down", headers))

    def _refused(self, submission: Submission, dedupe: Dedupe) -> Decision | None:
        if self._taken(submission, dedupe):
            return Decision("exists", error(dedupe.unique_reference or 412, "exists"))
        if submission.deletes is not None and self._books.fact(submission.deletes) is None:
            return Decision("missing", error(404, "no_such_fact"))
        return None

    def _repeated(self, submission: Submission, dedupe: Dedupe) -> Decision | None:
        """What a known key is answered; None: the key is new, forgotten, or does not matter."""
        known = None if submission.key is None else self._known.get(submission.key)
        if dedupe.by == "none" or known is None or not known.alive(dedupe):
            return None
        if dedupe.by == "key_and_body" and known.sha256 != submission.sha256:
            return Decision("mismatch", error(dedupe.mismatch_status, "key_reused"))
        return self._known_answer(known, dedupe)

    def _known_answer(self, known: _Known, dedupe: Dedupe) -> Decision:
        work = None if known.pending_id is None else self._books.pending(known.pending_id)
        fact = self._fact_of(known)
        if fact is None and work is not None and not work.job:
            if dedupe.in_flight == "conflict":
                return Decision("in_flight", error(409, "in_progress"))
            return Decision("replayed", waits_for=work.id)
        if dedupe.repeat_status is not None:
            return Decision("exists", error(dedupe.repeat_status, "exists"))
        if work is not None and work.job:
            return Decision("replayed", _accepted(work.id, _REPLAYED))
        return Decision("replayed", None if fact is None else _created(fact, _REPLAYED))

    def _fact_of(self, known: _Known) -> Fact | None:
        if known.fact_id is not None:
            return self._books.fact(known.fact_id)
        return None if known.pending_id is None else self._books.fulfilled_by(known.pending_id)

    def _taken(self, submission: Submission, dedupe: Dedupe) -> bool:
        only_if_absent = submission.headers.get("if-none-match") == "*"
        if submission.reference is None or not (only_if_absent or dedupe.unique_reference):
            return False
        return any(not fact.removed for fact in self._books.facts_of(submission.reference))

    def _do(
        self, submission: Submission, knobs: SubmitKnobs, ruling: Ruling, at: datetime
    ) -> Decision:
        draft = Draft(
            type="created" if submission.deletes is None else "deleted",
            key=submission.key,
            reference=submission.reference,
            content=submission.content,
            sha256=submission.sha256,
            status=knobs.fact_status,
            deletes=submission.deletes,
            received_at=at,
        )
        if ruling == "committed":
            fact = self._books.commit(draft)
            self._remember(draft, fact_id=fact.id)
            return Decision(ruling, _created(fact, {}))
        work = self._plan(draft, knobs)
        self._books.write(work)
        self._remember(draft, pending_id=work.id)
        self._wait_until_due(work)
        if work.job:
            return Decision(ruling, _accepted(work.id, {}))
        return Decision(ruling, waits_for=work.id)

    def _plan(self, draft: Draft, knobs: SubmitKnobs) -> PendingEntry:
        pending_id = self._books.new_pending_id()
        draft = draft.model_copy(update={"pending_id": pending_id})
        start = draft.received_at
        if knobs.job is None:
            seconds = 0.0 if knobs.commit == "never" else knobs.commit
            return PendingEntry(
                id=pending_id, draft=draft, due_at=start + timedelta(seconds=seconds)
            )
        timeline: tuple[tuple[datetime, JobStatus], ...] = tuple(
            (start + timedelta(seconds=second), status) for second, status in knobs.job.timeline
        )
        due = next((moment for moment, status in timeline if status == "succeeded"), None)
        return PendingEntry(id=pending_id, draft=draft, due_at=due, job=True, timeline=timeline)

    def _remember(
        self, draft: Draft, *, fact_id: str | None = None, pending_id: str | None = None
    ) -> None:
        if draft.key is not None:
            self._known[draft.key] = _Known(draft.sha256, draft.received_at, pending_id, fact_id)

    def _wait_until_due(self, work: PendingEntry) -> None:
        self._done[work.id] = asyncio.Event()
        if work.due_at is None or self._books.job_status(work.id) is not None:
            return
        wait_s = max((work.due_at - now()).total_seconds(), 0)
        loop = asyncio.get_running_loop()
        self._timers[work.id] = loop.call_later(wait_s, self._fulfil, work.id)

    def _fulfil(self, pending_id: str) -> None:
        self._timers.pop(pending_id, None)
        work = self._books.pending(pending_id)
        if work is not None and self._books.fulfilled_by(pending_id) is None:
            self._books.commit(work.draft)
        self._done[pending_id].set()

    def _job_status(self, work: PendingEntry) -> str:
        by_hand = self._books.job_status(work.id)
        if by_hand is not None:
            return by_hand
        at = now()
        reached = [status for moment, status in work.timeline if moment <= at]
        return reached[-1] if reached else "not_found"


def _ignored(submission: Submission, knobs: SubmitKnobs) -> Decision | None:
    if knobs.job is not None or knobs.commit != "never":
        return None
    return Decision("ignored", _false_success(submission))


def _to_do(knobs: SubmitKnobs) -> Ruling:
    if knobs.job is not None:
        return "accepted"
    return "committed" if knobs.commit == 0 else "scheduled"


def _created(fact: Fact, headers: dict[str, str]) -> Natural:
    status = 201 if fact.type == "created" else 200
    return Natural(status, fact.public(), {"Location": f"/facts/{fact.id}"} | headers)


def _accepted(job_id: str, headers: dict[str, str]) -> Natural:
    where = f"/jobs/{job_id}"
    body: JsonObject = {"job_id": job_id, "status": "accepted"}
    return Natural(202, body, {"Location": where} | headers)


def _false_success(submission: Submission) -> Natural:
    """What a provider says that reports success and did nothing."""
    body: JsonObject = {**submission.content, "id": "fact-000000", "status": "succeeded"}
    return Natural(201, body)
