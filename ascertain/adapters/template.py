"""Text and JSON with references in it: ``{effect_id}``, ``{input.amount}``, ``{undoes.external_id}``.

A string that is one reference and nothing else takes the referenced value with its type; inside other text
it becomes text. ``{input.note?}`` is left out, with its field, where there is no note. ``{{`` and ``}}``
stand for the braces themselves.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias, cast
from urllib.parse import quote

import pydantic_core
from pydantic import JsonValue
from pydantic_core.core_schema import no_info_plain_validator_function

from ascertain.adapters.place import Place, parse as parse_place

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pydantic_core import CoreSchema

    from ascertain.contracts.effect import Effect

ABOUT_EFFECT: Final = frozenset(
    {
        "effect_id",
        "task_id",
        "message_id",
        "step",
        "revision",
        "kind",
        "partition",
        "input",
        "undoes",
    }
)
ABOUT_CALL: Final = ABOUT_EFFECT | {"job_id", "body_sha256", "since", "since_unix"}

_PIECE: Final = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")


class MissingValueError(ValueError):
    """A reference that leads to nothing in this effect."""


@dataclass(frozen=True, slots=True)
class Reference:
    """One ``{...}``."""

    place: Place
    optional: bool

    @property
    def root(self) -> str:
        """The first word, which says whose value it is."""
        return self.place.steps[0]

    def value(self, scope: Mapping[str, JsonValue]) -> JsonValue:
        """What it leads to.

        Raises:
            MissingValueError: To nothing.
        """
        value = self.place.within(dict(scope))
        if value is None:
            raise MissingValueError(f"{self.place.text} is missing")
        return value


@dataclass(frozen=True, slots=True)
class Template:
    """Text with references."""

    parts: tuple[str | Reference, ...]

    @classmethod
    def __get_pydantic_core_schema__(cls, source: object, handler: object) -> CoreSchema:
        """In a model, it is read as it is written in a deployment file."""
        return no_info_plain_validator_function(parse)

    @property
    def references(self) -> tuple[Reference, ...]:
        """The references in it."""
        return tuple(part for part in self.parts if isinstance(part, Reference))

    @property
    def only(self) -> Reference | None:
        """The reference that is all there is, if so."""
        first = self.parts[0] if len(self.parts) == 1 else None
        return first if isinstance(first, Reference) else None

    def left_out(self, scope: Mapping[str, JsonValue]) -> bool:
        """Whether it is nothing but an optional reference that leads to nothing."""
        only = self.only
        return only is not None and only.optional and only.place.within(dict(scope)) is None

    def value(self, scope: Mapping[str, JsonValue]) -> JsonValue:
        """With every reference put in; a lone reference keeps its value's type."""
        return self.text(scope) if self.only is None else self.only.value(scope)

    def text(self, scope: Mapping[str, JsonValue], *, in_address: bool = False) -> str:
        """As text. In an address, each value is one escaped segment and cannot be empty or climb.

        Raises:
            MissingValueError: A reference leads to nothing, or to what does not fit into text.
        """
        return "".join(
            part if isinstance(part, str) else _put_in(part, scope, in_address=in_address)
            for part in self.parts
        )


def _put_in(reference: Reference, scope: Mapping[str, JsonValue], *, in_address: bool) -> str:
    value = reference.value(scope)
    if isinstance(value, dict | list):
        raise MissingValueError(f"{reference.place.text} is not a plain value")
    text = value if isinstance(value, str) else pydantic_core.to_json(value).decode()
    if not in_address:
        return text
    if text in {"", ".", ".."}:
        raise MissingValueError(f"{reference.place.text} is {text!r}, which fits no address")
    return quote(text, safe="")


def parse(text: object) -> Template:
    """Read a template.

    Raises:
        ValueError: A brace is not closed, or a reference is unknown.
    """
    if isinstance(text, Template):
        return text
    if not isinstance(text, str):
        raise ValueError("text is expected here")  # noqa: TRY004 - pydantic reports ValueError
    parts: list[str | Reference] = []
    literal, end = "", 0
    for found in _PIECE.finditer(text):
        literal += text[end : found.start()]
        end = found.end()
        if found[0] in {"{{", "}}"}:
            literal += found[0][0]
        elif found[1] is None:
            raise ValueError(
                f"{text!r} has a single {found[0]}; write {found[0] * 2} for the brace itself"
            )
        else:
            parts += [literal, _reference(found[1])] if literal else [_reference(found[1])]
            literal = ""
    literal += text[end:]
    return Template((*parts, literal) if literal or not parts else tuple(parts))


def _reference(inner: str) -> Reference:
    place = parse_place(inner.removesuffix("?"))
    if not place.steps or place.steps[0] not in ABOUT_CALL:
        known = ", ".join(sorted(ABOUT_CALL))
        raise ValueError(f"unknown reference {{{inner}}}; there are: {known}")
    return Reference(place, inner.endswith("?"))


Shape: TypeAlias = "Template | dict[str, Shape] | list[Shape] | int | float | bool | None"


@dataclass(frozen=True, slots=True)
class Form:
    """A JSON value whose strings are templates."""

    shape: Shape

    @classmethod
    def __get_pydantic_core_schema__(cls, source: object, handler: object) -> CoreSchema:
        """In a model, it is read as it is written in a deployment file."""
        return no_info_plain_validator_function(parse_form)

    def templates(self) -> Iterator[Template]:
        """Every template in it."""
        return _templates(self.shape)

    def render(self, scope: Mapping[str, JsonValue]) -> JsonValue:
        """The value; optional fields that lead to nothing are left out.

        Raises:
            MissingValueError: A reference that is not optional leads to nothing.
        """
        return _render(self.shape, scope)

    def left_out(self, scope: Mapping[str, JsonValue]) -> bool:
        """Whether it is nothing but an optional reference that leads to nothing."""
        return _left_out(self.shape, scope)


def parse_form(value: object) -> Form:
    """Read a JSON value with templates in it."""
    return value if isinstance(value, Form) else Form(_shape(cast("JsonValue", value)))


def _shape(value: JsonValue) -> Shape:
    if isinstance(value, str):
        return parse(value)
    if isinstance(value, dict):
        return {name: _shape(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_shape(inner) for inner in value]
    return value


def _templates(shape: Shape) -> Iterator[Template]:
    if isinstance(shape, Template):
        yield shape
    elif isinstance(shape, dict):
        for inner in shape.values():
            yield from _templates(inner)
    elif isinstance(shape, list):
        for inner in shape:
            yield from _templates(inner)


def _render(shape: Shape, scope: Mapping[str, JsonValue]) -> JsonValue:
    if isinstance(shape, Template):
        return shape.value(scope)
    if isinstance(shape, dict):
        return {name: _render(s, scope) for name, s in shape.items() if not _left_out(s, scope)}
    if isinstance(shape, list):
        return [_render(inner, scope) for inner in shape if not _left_out(inner, scope)]
    return shape


def _left_out(shape: Shape, scope: Mapping[str, JsonValue]) -> bool:
    return isinstance(shape, Template) and shape.left_out(scope)


def scope_of(effect: Effect, content: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """What references can lead to, with ``content`` as the input."""
    undoes = None if effect.undoes is None else effect.undoes.model_dump()
    return {
        "effect_id": effect.effect_id,
        "task_id": effect.task_id,
        "message_id": effect.message_id,
        "step": effect.step,
        "revision": effect.revision,
        "kind": effect.kind,
        "partition": effect.partition,
        "input": dict(content),
        "undoes": undoes,
    }
