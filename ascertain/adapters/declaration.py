"""What a deployment file says of an HTTP outside, as a whole.

Every part is strict: a misspelt field, an unknown reference and a proof that proves nothing are refused when
the deployment is read, not when the first effect is in doubt.
"""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, TypeVar

from pydantic import Field, ValidationError, model_validator

from ascertain.adapters.answer_form import AcceptedForm, AnswerRule, ProofForm
from ascertain.adapters.batch import BatchForm
from ascertain.adapters.frozen import HeaderForm
from ascertain.adapters.place import Place
from ascertain.adapters.question_form import LookupForm, QuestionForm
from ascertain.adapters.request_form import HeaderName, WriteForm
from ascertain.adapters.template import ABOUT_EFFECT, Template
from ascertain.adapters.throttle import Throttle
from ascertain.adapters.wire import WireSettings
from ascertain.contracts.fault import faults
from ascertain.contracts.value import StrictValue
from ascertain.errors import InvalidSettings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pydantic import JsonValue

# A host is never written by a task: whatever follows it must begin with one of these.
_ORIGIN: Final = re.compile(r"https?://[^/?#{}@\s]+(?P<rest>[/?].*)?")


class WireForm(StrictValue):
    """Limits of the HTTP layer; see ``ascertain.adapters.wire``."""

    connections: Annotated[int, Field(ge=1)] = 100
    connect: timedelta = timedelta(seconds=3)
    keep_alive: timedelta = timedelta(seconds=15)
    max_body_bytes: Annotated[int, Field(ge=1)] = 1 << 20
    ca_file: Path | None = None

    def settings(self) -> WireSettings:
        """As the wire takes them."""
        return WireSettings(**self.model_dump())


class Declaration(StrictValue):
    """Everything about one kind.

    Attributes:
        headers: Sent with every request, lookups included.
        answers: What particular answers mean.
        reason: Where an answer says why; the first that is there.
        census: Lists everything of this kind, whosever it is; a ``match`` says where an item carries
            ``{effect_id}``.
        batch: Many effects of a stream in one request; each keeps its own id, state and lookup.
        job: Asked instead of ``lookup`` while the outside's own id of accepted work is known.
        timeout: Budget of the one request; ``max_duration`` follows from it.
    """

    base_url: str = ""
    headers: dict[HeaderName, HeaderForm] = Field(default_factory=dict)
    request: WriteForm
    proof: ProofForm
    accepted: AcceptedForm | None = None
    answers: tuple[AnswerRule, ...] = ()
    reason: tuple[Place, ...] = ()
    lookup: LookupForm | None = None
    census: QuestionForm | None = None
    job: QuestionForm | None = None
    batch: BatchForm | None = None
    timeout: timedelta = timedelta(seconds=4.5)
    throttle: Throttle = Throttle()
    wire: WireForm = WireForm()

    @model_validator(mode="after")
    def _fits_together(self) -> Declaration:
        forms = {"request": self.request, "lookup": self.lookup, "job": self.job}
        for name, form in {**forms, "census": self.census}.items():
            if form is not None:
                self._check_address(name, form.url)
        if self.job is not None and self.lookup is None:
            raise ValueError(
                "job: needs a lookup, because a lost answer leaves no job id to ask for"
            )
        unknown = self.request.roots() - ABOUT_EFFECT
        if unknown:
            raise ValueError(f"request: {{{min(unknown)}}} is known to lookups only")
        if self.lookup is not None and "job_id" in self.lookup.roots():
            raise ValueError("lookup: {job_id} is known to job only")
        if self.census is not None:
            _check_census(self.census)
        if self.batch is not None:
            self._check_batch(self.batch)
        return self

    def _check_batch(self, batch: BatchForm) -> None:
        self._check_address("batch", batch.url)
        headers = (template for form in self.headers.values() for template in form.templates)
        if batch.url.references or any(template.references for template in headers):
            raise ValueError(
                "batch: address and headers are those of many effects, and refer to none"
            )
        if self.request.body_json is None:
            raise ValueError("batch: the request must have json, which is what a batch is made of")
        if self.request.idempotency_header is not None:
            raise ValueError(
                "batch: one header cannot carry the keys of many; put {effect_id} into the request's json"
            )

    def _check_address(self, name: str, url: Template) -> None:
        first = url.parts[0]
        start = first if isinstance(first, str) else ""
        whole = self.base_url.rstrip("/") + start if start.startswith("/") else start
        origin = _ORIGIN.fullmatch(whole)
        if origin is None or (origin["rest"] is None and url.references):
            raise ValueError(
                f"{name}.url: must begin with http(s)://host, without credentials and without a reference "
                "in the host, or with / below base_url"
            )
        if "#" in whole:
            raise ValueError(f"{name}.url: a fragment is never sent")

    def address(self, template: Template, scope: Mapping[str, JsonValue]) -> str:
        """The absolute address of a request, without ``params``."""
        url = template.text(scope, in_address=True)
        return self.base_url.rstrip("/") + url if url.startswith("/") else url

    def needs_time(self) -> bool:
        """Whether a lookup refers to the time of the first send."""
        forms = [form for form in (self.lookup, self.job) if form is not None]
        return any({"since", "since_unix"} & form.roots() for form in forms)


def _check_census(form: QuestionForm) -> None:
    if form.items is None or not form.carries_effect_id:
        raise ValueError("census: needs items, and a match of a place with {effect_id}")
    asked = {r.root for t in (form.url, *form.params.values()) for r in t.references}
    if asked - {"since", "since_unix"}:
        raise ValueError(
            "census: lists everything, so it can refer to {since} and {since_unix} only"
        )


Model = TypeVar("Model", bound=StrictValue)


def read(model: type[Model], kind: str, options: Mapping[str, JsonValue]) -> Model:
    """The options of one kind as a model.

    Raises:
        InvalidSettings: Names the key in the deployment file, and what is wrong with it.
    """
    try:
        return model.model_validate(dict(options))
    except ValidationError as error:
        words = faults(error, form=model, at=f'kinds."{kind}".options')
        raise InvalidSettings(words) from None
