from __future__ import annotations

import re

import pytest

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
