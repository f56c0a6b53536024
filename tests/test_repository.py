from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from importlib.metadata import packages_distributions
from pathlib import Path
from pkgutil import resolve_name

import pytest

ROOT = Path(__file__).parents[1]
PINS = sorted(ROOT.glob("requirements*.txt"))
REASON = re.compile(r"^\| (?P<package>[a-z0-9-]+) \| (?P<why>\S.{10,}\.) \|$", re.MULTILINE)


def project() -> dict:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


def bare(requirement: str) -> str:
    """The package's name without versions and extras."""
    return re.split(r"[^A-Za-z0-9-]", requirement, maxsplit=1)[0]


def declared() -> set[str]:
    settings = project()
    optional = settings["project"]["optional-dependencies"].values()
    lists = [
        settings["project"]["dependencies"],
        *optional,
        *settings["dependency-groups"].values(),
    ]
    return {bare(item) for listed in lists for item in listed if isinstance(item, str)}


def pinned(path: Path) -> dict[str, str]:
    """Package to its whole entry, continuation lines included."""
    text = "\n".join(line for line in path.read_text().splitlines() if not line.startswith("#"))
    entries = re.split(r"\n(?=[a-z0-9])", text)
    return {bare(entry): entry for entry in entries}


def imported(folder: Path) -> set[str]:
    """The top names of all absolute imports below a folder."""
    found = set()
    for path in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                found |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                found.add(node.module.split(".")[0])
    return found


@pytest.fixture(scope="session")
def wheel(tmp_path_factory) -> zipfile.ZipFile:
    target = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", target],
        cwd=ROOT,
        check=True,
        stdin=subprocess.DEVNULL,
        capture_output=True,
    )
    (built,) = target.glob("*.whl")
    with zipfile.ZipFile(built) as opened:
        yield opened


def test_the_wheel_holds_the_library_alone(wheel):
    version = project()["project"]["version"]
    assert {name.split("/")[0] for name in wheel.namelist()} == {
        "ascertain",
        f"ascertain-{version}.dist-info",
    }


def test_the_wheel_holds_every_file_of_the_library(wheel):
    ours = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "ascertain").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert "ascertain/py.typed" in ours
    assert ours <= set(wheel.namelist())


def test_the_wheel_says_that_it_is_typed_and_under_which_licence(wheel):
    version = project()["project"]["version"]
    assert "ascertain/py.typed" in wheel.namelist()
    licence = wheel.read(f"ascertain-{version}.dist-info/licenses/LICENSE").decode()
    assert licence == (ROOT / "LICENSE").read_text()


def test_the_library_imports_nothing_that_it_does_not_declare():
    needed = project()["project"]
    optional = needed["optional-dependencies"].values()
    listed = [*needed["dependencies"], *(item for extra in optional for item in extra)]
    declared_here = {bare(item) for item in listed}
    owners = packages_distributions()
    third_party = imported(ROOT / "ascertain") - set(sys.stdlib_module_names) - {"ascertain"}
    application = {"activities", "drill", "starter", "workers", "workflows"}
    # Imported only for a connection that is one of its own already, and by pytest itself.
    callers = {"sqlalchemy", "pytest"}
    undeclared = {
        name
        for name in third_party - application - callers
        if not {owner.lower().replace("_", "-") for owner in owners.get(name, [])} & declared_here
    }
    assert undeclared == set()


def test_every_entry_point_leads_to_something_that_can_be_called():
    settings = project()["project"]
    places = [
        *settings["scripts"].values(),
        *settings["entry-points"]["ascertain.adapters"].values(),
        *(f"{module}:conform" for module in settings["entry-points"]["pytest11"].values()),
    ]
    for place in places:
        assert callable(resolve_name(place)), place


def test_every_dependency_has_its_reason():
    page = (ROOT / "docs" / "reference" / "dependencies.md").read_text()
    reasons = [found["package"] for found in REASON.finditer(page)]
    assert sorted(reasons) == sorted(declared())


@pytest.mark.parametrize("path", PINS, ids=lambda path: path.name)
def test_every_pin_is_exact_and_carries_hashes(path):
    for name, entry in pinned(path).items():
        assert re.match(rf"{name}==[^ ]+", entry), entry
        assert re.search(r"--hash=sha256:[0-9a-f]{64}", entry), entry


@pytest.mark.parametrize("path", PINS, ids=lambda path: path.name)
def test_pins_name_no_place_to_download_from(path):
    text = path.read_text()
    assert not re.search(
        r"://|--index|--extra-index|--find-links|file:|^-[cr] ", text, re.MULTILINE
    )


def test_what_is_pinned_for_users_is_what_is_tested():
    tested = pinned(ROOT / "requirements-dev.txt")
    assert pinned(ROOT / "requirements.txt").items() <= tested.items()
    assert pinned(ROOT / "requirements-build.txt").items() <= tested.items()
    assert pinned(ROOT / "requirements-image.txt").items() <= tested.items()


def test_what_only_the_benchmark_compares_with_is_installed_nowhere_else():
    tested, peers = (pinned(ROOT / f"requirements-{name}.txt") for name in ("dev", "peers"))
    assert {name: tested[name] for name in peers.keys() & tested.keys()}.items() <= peers.items()
    assert not {bare(item) for item in project()["dependency-groups"]["peers"]} & set(tested)


def test_everything_declared_is_pinned():
    tested, peers = (pinned(ROOT / f"requirements-{name}.txt") for name in ("dev", "peers"))
    assert declared() <= set(tested) | set(peers)
    runtime = {bare(item) for item in project()["project"]["dependencies"]}
    assert runtime <= set(pinned(ROOT / "requirements.txt"))


def test_run_is_executable_and_a_posix_script():
    script = ROOT / "run"
    assert os.access(script, os.X_OK)
    assert script.read_text().startswith("#!/bin/sh\n")
    subprocess.run(["sh", "-n", script], check=True, stdin=subprocess.DEVNULL)
    assert not re.search(r"\[\[|\blocal\b|\bfunction\b|<<<|\$\{[^}]*[/^,]", script.read_text())


# The machine's Python, but that it installs nothing and says so.
PYTHON = """#!/bin/sh
case "$1 $2" in
    "-m venv") mkdir -p "$3/bin" && cp "$0" "$3/bin/python" && cp "$0" "$3/bin/ascertain" ;;
    "-m pip") echo "$*" ;;
esac
"""


def test_the_first_run_says_what_has_begun_of_the_installation_and_later_ones_say_nothing(tmp_path):
    shutil.copy(ROOT / "run", tmp_path / "run")
    python = tmp_path / "bin" / "python3.11"
    python.parent.mkdir()
    python.write_text(PYTHON)
    python.chmod(0o755)
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "requirements-build.txt").touch()
    pins = (
        "# made by a tool",
        "one==1 \\",
        "    --hash=sha256:1",
        "two==2 \\",
        "    --hash=sha256:2",
    )
    (tmp_path / "requirements-dev.txt").write_text("\n".join(pins) + "\n")

    def said() -> list[str]:
        done = subprocess.run(
            [tmp_path / "run", "version"],
            env={"PATH": f"{python.parent}:{os.defpath}"},
            check=True,
            capture_output=True,
            stdin=subprocess.DEVNULL,
            text=True,
        )
        return done.stderr.splitlines()

    first, *steps = said()
    assert "Preparing .venv from the hashed pins" in first
    assert f"tail -f {tmp_path}/.venv.log; then {tmp_path}/.venv/install.log)" in first
    assert steps == [
        "  1 of 3: what builds packages",
        "  2 of 3: 2 packages, most of the time",
        "  3 of 3: ascertain itself",
    ]
    assert "--require-hashes" in (tmp_path / ".venv" / "install.log").read_text()
    assert said() == []


def test_the_audit_is_a_job_of_its_own_and_what_people_run():
    script = ROOT / ".ci" / "audit"
    assert os.access(script, os.X_OK)
    subprocess.run(["bash", "-n", script], check=True, stdin=subprocess.DEVNULL)
    assert script.read_text().splitlines()[-1].endswith('./run audit "$@"')


def test_ci_runs_what_people_run():
    script = ROOT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    subprocess.run(["bash", "-n", script], check=True, stdin=subprocess.DEVNULL)
    assert re.findall(r"^bounded \d+ \./run (\w+)", script.read_text(), re.MULTILINE) == [
        "check",
        "test",
    ]
