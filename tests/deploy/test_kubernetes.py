"""The Kubernetes manifests: their form, and that what they start and ask is there."""

from __future__ import annotations

import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest
import typer
import yaml

from ascertain.cli.program import build
from ascertain.settings import Settings
from workers import version
from workers.worker import DRAIN

FOLDER = Path(__file__).parents[2] / "deploy" / "kubernetes"
FILES = sorted(FOLDER.glob("*.yaml"))


def documents():
    return [document for file in FILES for document in yaml.safe_load_all(file.read_text())]


def pods():
    """Every pod's specification by the name of what makes it."""
    return {
        one["metadata"]["name"]: one["spec"]["template"]["spec"]
        for one in documents()
        if one["kind"] in {"Deployment", "Job"}
    }


def containers():
    return {name: pod["containers"][0] for name, pod in pods().items()}


def validated(*files):
    return subprocess.run(
        (sys.executable, "-m", "kubernetes_validate", "--strict", *files),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_the_manifests_are_as_the_api_s_schema_says():
    told = validated(*FILES)
    assert told.returncode == 0, told.stdout + told.stderr


def test_a_misspelt_key_would_be_noticed(tmp_path):
    wrong = tmp_path / "worker.yaml"
    wrong.write_text(FILES[-1].read_text().replace("livenessProbe", "livelinessProbe"))
    assert validated(wrong).returncode != 0


@pytest.mark.parametrize("name", sorted(pods()))
def test_a_pod_is_bounded_and_can_do_no_more_than_it_needs(name):
    pod, container = pods()[name], containers()[name]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["automountServiceAccountToken"] is False
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert set(container["resources"]["limits"]) == {"cpu", "memory"}
    assert ":" in container["image"]
    assert not container["image"].endswith(":latest")


def test_every_command_of_ours_is_one_that_can_be_given_and_its_probes_ask_where_it_listens():
    group = typer.main.get_command(build())
    ours = {
        name: one for name, one in containers().items() if one["image"].startswith("ascertain:")
    }
    assert set(ours) == {"ascertain-worker", "ascertain-metrics", "ascertain-migrate"}
    for one in ours.values():
        command, *words = one["args"]
        given = group.commands[command].make_context(command, words).params
        ports = {port["name"]: port["containerPort"] for port in one.get("ports", ())}
        asked = [one[key]["httpGet"] for key in one if key.endswith("Probe")]
        listens = given.get("metrics") or given.get("listen")
        assert bool(asked) == bool(listens)
        for probe in asked:
            assert listens == f"0.0.0.0:{ports[probe['port']]}"
            assert probe["path"] in {"/live", "/ready"}


def test_a_worker_is_given_longer_than_it_drains_and_all_versions_are_the_same():
    pod = pods()["ascertain-worker"]
    assert timedelta(seconds=pod["terminationGracePeriodSeconds"]) > DRAIN
    said = {one["name"]: one["value"] for one in containers()["ascertain-worker"]["env"]}
    made_current = containers()["ascertain-version"]["command"]
    assert made_current[made_current.index("--deployment-name") + 1] == said[version.NAME]
    assert made_current[made_current.index("--build-id") + 1] == said[version.BUILD]


def test_the_deployment_file_of_the_manifests_is_one():
    (file,) = [
        one["data"]["ascertain.toml"]
        for one in documents()
        if "ascertain.toml" in one.get("data", {})
    ]
    import tomllib

    Settings.model_validate(tomllib.loads(file))
