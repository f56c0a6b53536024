"""The compose file, as far as it can be tried without an engine: its form, and every command of ours."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import typer
import yaml

from ascertain.cli.program import build
from ascertain.settings import FILE_VARIABLE
from starter.process import free_port
from tests.docs.blocks import blocks
from tests.protocol.prometheus import program

ROOT = Path(__file__).parents[2]
FILE = ROOT / "docker-compose.temporal.yml"
PAGE = ROOT / "docs" / "how-to" / "deploy.md"
WITHIN_S = 120


@pytest.fixture(scope="module")
def services():
    return yaml.safe_load(FILE.read_text())["services"]


def ours(services):
    return {name: it for name, it in services.items() if it["image"].startswith("ascertain:")}


def run(*words, **environment):
    return subprocess.run(
        words,
        check=False,
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=WITHIN_S,
    )


def test_the_file_is_as_the_compose_specification_says():
    told = run(
        sys.executable,
        "-m",
        "check_jsonschema",
        "--builtin-schema",
        "vendor.compose-spec",
        str(FILE),
    )
    assert told.returncode == 0, told.stdout


def test_every_service_is_bounded_and_nothing_runs_with_a_password_that_stands_in_the_file(
    services,
):
    for name, service in services.items():
        assert service["restart"] in {"unless-stopped", "on-failure:6", "no"}, name
        for variable, value in service.get("environment", {}).items():
            assert "PASSWORD" not in variable or value.startswith("/run/secrets/"), (name, variable)
        if service["restart"] == "unless-stopped":
            assert service["deploy"]["resources"]["limits"], name


def test_every_port_is_open_to_this_machine_alone(services):
    ports = [port for service in services.values() for port in service.get("ports", ())]
    assert ports
    assert [port for port in ports if not port.startswith("127.0.0.1:")] == []


def test_every_command_of_ours_is_one_that_can_be_given(services):
    group = typer.main.get_command(build())
    tried = []
    for service in ours(services).values():
        for words in (service["command"], service.get("healthcheck", {}).get("test", [])[2:]):
            plain = [word.replace("${ASCERTAIN_QUEUE:-ascertain-media}", "media") for word in words]
            if plain and plain[0] not in {"--help", "-c"}:
                group.commands[plain[0]].make_context(plain[0], plain[1:])
                tried.append(plain[0])
    assert {"migrate", "worker", "metrics", "relay", "consume"} <= set(tried)


def test_every_command_that_the_page_gives_without_compose_is_one_that_can_be_given():
    group = typer.main.get_command(build())
    found = [block.commands for block in blocks(PAGE) if block.language == "sh"]
    given = [
        shlex.split(line) for lines in found for line in lines if line.startswith("ascertain ")
    ]
    for _, name, *words in given:
        group.commands[name].make_context(name, words)
    assert {words[1] for words in given} == {"migrate", "worker", "metrics", "relay", "doctor"}


async def started(words, environment):
    process = await asyncio.create_subprocess_exec(
        *words,
        cwd=ROOT,
        env=environment,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    async with asyncio.timeout(WITHIN_S):
        line = (await process.stdout.readline()).decode()
    assert line.startswith("ready: "), (line, await process.stderr.read())
    return process


async def test_the_services_run_as_plain_processes_in_their_own_environment(
    services, tmp_path, postgres, temporal
):
    url = tmp_path / "ledger_url"
    url.write_text(await postgres.create_database("composed") + "\n")
    standing_in = {
        "TEMPORAL_ADDRESS": temporal.address,
        "ASCERTAIN_LEDGER_URL_FILE": str(url),
        "ASCERTAIN_SECRETS": str(tmp_path),
        FILE_VARIABLE: str(ROOT / "deploy" / "ascertain.toml"),
    }
    declared = services["worker"]["environment"]
    assert set(standing_in) <= set(declared)
    environment = {
        **declared,
        **standing_in,
        "TEMPORAL_NAMESPACE": temporal.namespace,
        "PATH": f"{Path(sys.executable).parent}:{os.defpath}",
        "PYTHONPATH": str(ROOT),
        "HOME": str(tmp_path),
    }
    command = str(ROOT / "deploy" / "ascertain")
    migrated = run(command, *services["migrate"]["command"], **environment)
    assert migrated.returncode == 0, migrated.stderr
    environment["ASCERTAIN_OUTBOX_URL"] = await postgres.create_database("outbox")
    migrated = run(
        command, "migrate", "--outbox", environment["ASCERTAIN_OUTBOX_URL"], **environment
    )
    assert migrated.returncode == 0, migrated.stderr
    for name in ("worker", "metrics", "relay"):
        await runs_healthily(services[name], command, environment)
    await postgres.drop_database("outbox")
    await postgres.drop_database("composed")


async def runs_healthily(service, command, environment):
    """As in its container, but on ports that are free here."""
    ports = {port: str(free_port()) for port in ("9464", "9465")}

    def here(words):
        for port, free in ports.items():
            words = [word.replace(port, free) for word in words]
        return words

    process = await started([command, *here(service["command"])], environment)
    try:
        checked = await asyncio.to_thread(
            run, *here(service["healthcheck"]["test"][1:]), **environment
        )
        assert checked.returncode == 0, checked.stdout + checked.stderr
    finally:
        process.terminate()
        await process.communicate()
    assert process.returncode == 0


@pytest.mark.prometheus
async def test_prometheus_takes_the_configuration_that_the_compose_file_gives_it(tmp_path):
    """The rules lie beside it in the container."""
    told = (ROOT / "deploy" / "prometheus" / "prometheus.yml").read_text()
    shutil.copy(ROOT / "deploy" / "prometheus" / "ascertain.rules.yml", tmp_path)
    file = tmp_path / "prometheus.yml"
    file.write_text(told.replace("/etc/prometheus", str(tmp_path)))
    checked = await asyncio.to_thread(run, await program("promtool"), "check", "config", str(file))
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert "1 rule files found" in checked.stdout


def test_what_the_compose_file_mounts_is_there_and_grafana_finds_its_dashboard(services):
    mounted = [
        ROOT / volume.partition(":")[0]
        for service in services.values()
        for volume in service.get("volumes", ())
        if volume.startswith("./")
    ]
    assert [str(path) for path in mounted if not path.exists()] == []
    grafana = ROOT / "deploy" / "grafana" / "provisioning"
    (source,) = yaml.safe_load((grafana / "datasources" / "prometheus.yml").read_text())[
        "datasources"
    ]
    (provider,) = yaml.safe_load((grafana / "dashboards" / "ascertain.yml").read_text())[
        "providers"
    ]
    assert provider["options"]["path"] == "/etc/grafana/dashboards"
    dashboard = json.loads(
        (ROOT / "deploy" / "grafana" / "dashboards" / "ascertain.json").read_text()
    )
    used = {
        target["datasource"]["uid"]
        for panel in dashboard["panels"]
        for target in panel.get("targets", ())
    }
    assert used == {source["uid"]}


IMPORTED = """
import importlib.metadata as metadata, sys
import workers.serve, workers.command, starter.relay_command, starter.relay
import starter.consumer_command, starter.consumer
from ascertain.adapters import command, compute, generate, http, object, smtp, sql, stripe, webhook
owners = metadata.packages_distributions()
tops = {name.partition(".")[0] for name in sys.modules}
print(*sorted({owner for top in tops for owner in owners.get(top, ())}))
"""


def test_the_image_s_pins_hold_every_package_that_a_worker_imports(tmp_path):
    """Run where nothing but what the image copies can be imported beside them."""
    for line in (ROOT / "deploy" / "Dockerfile").read_text().splitlines():
        _, _, rest = line.partition("COPY ")
        name = rest.split()[0] if rest else ""
        if (ROOT / name / "__init__.py").is_file():
            (tmp_path / name).symlink_to(ROOT / name)
    told = run(sys.executable, "-P", "-c", IMPORTED, PYTHONPATH=str(tmp_path))
    assert told.returncode == 0, told.stderr
    pins = (ROOT / "requirements-image.txt").read_text()
    pinned = {line.partition("==")[0] for line in pins.splitlines() if "==" in line}
    imported = {re.sub(r"[-_.]+", "-", name).lower() for name in told.stdout.split()}
    assert {"temporalio", "aiosmtplib", "obstore"} <= imported
    # httpx and OpenTelemetry take the last two only where they happen to be there.
    assert imported - pinned - {"ascertain", "setuptools", "pip", "click", "psutil"} == set()


def test_secrets_are_made_once_and_differ(tmp_path):
    script = tmp_path / "make-secrets.sh"
    shutil.copy(ROOT / "deploy" / "make-secrets.sh", script)
    assert run("sh", str(script)).returncode == 0
    made = {file.name: file.read_text() for file in (tmp_path / "secrets").iterdir()}
    assert run("sh", str(script)).returncode == 0
    again = {file.name: file.read_text() for file in (tmp_path / "secrets").iterdir()}
    assert made == again
    assert len({made["ledger_password"], made["temporal_password"]}) == 2
    named = ("grafana_password", "ledger_password", "temporal_password")
    assert min(len(made[name]) for name in named) == 48
    assert made["ledger_password"] in made["ledger_url"]
