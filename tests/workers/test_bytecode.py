from __future__ import annotations

import importlib
import sys
from importlib.util import find_spec
from itertools import count

import pytest

from workers import bytecode
from workers.worker import sandbox

_numbers = count(1)


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package of one module, known to nothing else in this process."""
    name = f"read_once_{next(_numbers)}"
    folder = tmp_path / name
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    write(folder, "first")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield folder
    forget(name)


def write(folder, release):
    (folder / "release.py").write_text(f"NAME = {release!r}\n")
    importlib.invalidate_caches()


def forget(name):
    for module in [each for each in sys.modules if each.partition(".")[0] == name]:
        del sys.modules[module]


def imported_anew(folder):
    forget(folder.name)
    return importlib.import_module(f"{folder.name}.release")


def test_a_file_that_is_replaced_below_a_running_worker_does_not_mix_releases(package):
    bytecode.keep(package.name)
    first = imported_anew(package)
    write(package, "second")
    again = imported_anew(package)
    assert (first.NAME, again.NAME) == ("first", "first")
    assert first is not again


def test_other_packages_are_imported_as_they_are(package):
    assert imported_anew(package).NAME == "first"
    write(package, "second, and longer")
    assert imported_anew(package).NAME == "second, and longer"


def test_a_module_that_is_not_there_is_missed_as_ever(package):
    bytecode.keep(package.name)
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module(f"{package.name}.nothing")


@pytest.mark.parametrize("name", ["workflows.task", "ascertain.keys"])
def test_the_sandbox_reads_the_code_of_a_workflow_once(name):
    sandbox()
    specs = [find_spec_anew(name), find_spec_anew(name)]
    assert specs[0] is not specs[1]
    assert specs[0].loader.get_code(name) is specs[1].loader.get_code(name)


def find_spec_anew(name):
    """As the sandbox finds it, for which nothing is imported yet."""
    path = find_spec(name.partition(".")[0]).submodule_search_locations
    for finder in sys.meta_path:
        found = finder.find_spec(name, path)
        if found is not None:
            return found
    return None
