from __future__ import annotations

import re
import tomllib

import pytest

from ascertain.adapters.answer_form import AcceptedForm, AnswerRule, ProofForm
from ascertain.adapters.batch import BatchForm
from ascertain.adapters.declaration import Declaration, WireForm, read
from ascertain.adapters.judgement import Meaning
from ascertain.adapters.question_form import LookupForm, Paging
from ascertain.adapters.request_form import WriteForm
from ascertain.adapters.stripe import ChargeInput, RefundInput, StripeOptions
from ascertain.adapters.template import ABOUT_CALL
from ascertain.adapters.throttle import Throttle
from ascertain.contracts import names
from ascertain.contracts.effect import State
from ascertain.errors import AscertainError
from tests.cli.reference import all_errors
from tests.docs import reference
from tests.docs.blocks import ROOT, blocks

AGAIN = "write the pages anew with: python -m tests.docs.reference"


@pytest.mark.parametrize("page", sorted(reference.pages()))
def test_a_page_made_from_the_code_says_what_the_code_says(page):
    assert (reference.DOCS / page).read_text() == reference.pages()[page], AGAIN


def test_every_error_stands_in_the_one_tree_or_belongs_to_the_command_alone():
    page = reference.error_tree()
    for error in all_errors() - {AscertainError}:
        alone = error.__module__.startswith(("ascertain.cli.", "ascertain.snapshot."))
        assert alone or f"── {error.__name__}" in page, error


def test_every_key_of_the_deployment_file_has_its_meaning():
    rows = re.findall(r"^\| `(\w+)` \|.*\| (.*?) \|$", reference.deployment_file(), re.MULTILINE)
    assert [key for key, meaning in rows if not meaning.strip()] == []


@pytest.mark.parametrize(
    ("section", "form"),
    [
        *(("http", form) for form in (Declaration, WriteForm, ProofForm, AcceptedForm)),
        *(("http", form) for form in (AnswerRule, LookupForm, Paging, BatchForm)),
        *(("stripe", form) for form in (StripeOptions, ChargeInput, RefundInput)),
    ],
)
def test_every_option_of_a_declared_adapter_stands_on_the_page(section, form):
    said = section_of(section)
    for name, option in form.model_fields.items():
        assert f"`{option.alias or name}`" in said, name


@pytest.mark.parametrize(("table", "form"), [("throttle", Throttle), ("wire", WireForm)])
def test_every_limit_of_waits_and_connections_stands_on_the_page(table, form):
    for name in form.model_fields:
        assert f"`{table}.{name}`" in section_of("http")


def test_every_reference_and_every_meaning_of_an_answer_stands_on_the_page():
    said = section_of("http")
    for root in ABOUT_CALL:
        assert re.search(rf"`\{{{root}[.}}]", said), root
    for meaning in Meaning:
        assert f"`{meaning}`" in said, meaning


def test_the_authenticated_example_is_one_that_the_adapter_takes_with_its_key_still_a_name():
    (example,) = [b for b in blocks(ROOT / "docs/how-to/http-adapter.md") if "secret:" in b.text]
    kind = tomllib.loads(example.text)["kinds"]["note.create"]
    declared = read(Declaration, "note.create", kind["options"])
    text, secret = declared.headers["Authorization"].render({})
    assert (text.text, secret.secret) == ("Bearer ", "NOTES_KEY")


def section_of(adapter: str) -> str:
    """What the page about effects says of one adapter."""
    _, _, after = (reference.DOCS / "effects.md").read_text().partition(f"\n## {adapter}\n")
    return after.partition("\n## ")[0]


def test_the_diagram_shows_every_state():
    (diagram, *_) = blocks(reference.DOCS / "states.md")
    assert diagram.language == "mermaid"
    assert set(re.findall(r"--> (\w+)", diagram.text)) == set(State)


async def test_the_queries_of_the_page_are_queries_that_the_server_understands(temporal_client):
    found = blocks(reference.DOCS / "search-attributes.md")
    queries = [line for block in found for line in block.text.splitlines()]
    assert len(queries) == 5
    for query in queries:
        assert (await temporal_client.count_workflows(query)).count >= 0


def test_every_search_attribute_stands_on_the_page():
    page = reference.search_attributes()
    for name in names.KEYWORD_ATTRIBUTES + names.DATETIME_ATTRIBUTES:
        assert f"| `{name}` |" in page


def test_every_link_between_pages_leads_somewhere():
    for page in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]:
        for link in re.findall(r"\]\((?!https?:)([^)#\s]+)", page.read_text()):
            assert (page.parent / link).exists(), (page, link)
