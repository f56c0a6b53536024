"""What the pages show can be written into a deployment file as it stands."""

from __future__ import annotations

import importlib
import re
import tomllib
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from ascertain.settings import Settings
from tests.adapters.calls import GivenSecrets
from workers.registry import build_kinds

HOW_TO = Path(__file__).parents[2] / "docs" / "how-to"
ADAPTERS = sorted(entry.name for entry in entry_points(group="ascertain.adapters"))
PAGES = sorted(HOW_TO.glob("*-adapter.md"))


def shown(text: str) -> str:
    """The example of a module's docstring."""
    lines = text.split("::\n\n", 1)[1].splitlines()
    kept = []
    for line in lines:
        if line and not line.startswith("    "):
            break
        kept.append(line.removeprefix("    "))
    return "\n".join(kept)


@pytest.mark.parametrize("name", sorted(set(ADAPTERS) - {"compute"}))
def test_the_example_of_an_adapters_own_page_is_a_deployment_that_works(name: str):
    module = importlib.import_module(f"ascertain.adapters.{name}")
    settings = Settings.model_validate(tomllib.loads(shown(module.__doc__ or "")))
    built = build_kinds(settings, GivenSecrets())
    assert {kind.adapter for kind in settings.kinds.values()} == {name}
    assert all(kind.adapter is not None for kind in built.values())


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_what_a_page_shows_of_a_deployment_file_can_be_read(page: Path):
    for block in re.findall(r"```toml\n(.*?)```", page.read_text(), re.DOTALL):
        tomllib.loads(block)


def test_every_adapter_has_its_page_and_its_place_in_the_reference():
    reference = (HOW_TO.parent / "reference" / "effects.md").read_text()
    for name in ADAPTERS:
        assert f"| `{name}` |" in reference
        assert name == "stripe" or (HOW_TO / f"{name}-adapter.md").exists()
