"""What a development stack is to be: its ports, its deployment file, the environment of its worker."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Mapping
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from ascertain import settings as deployment
from ascertain.errors import SetupError
from ascertain.ledger.session import place as address
from ascertain.settings import LEDGER_FILE_VARIABLE, LEDGER_VARIABLE
from starter.process import free_port, port_is_free
from workers.registry import try_kinds
from workers.secret import ProcessSecrets

if TYPE_CHECKING:
    from ascertain.cli.stack import Stack
    from ascertain.settings import Settings
    from starter.part import Say

EXAMPLES: Final = Path(__file__).parents[1] / "examples"
EXAMPLE: Final = EXAMPLES / "ascertain.toml"
FIRST_TASK: Final = EXAMPLES / "first.json"
# What the example's outside does to the tasks that are there to meet trouble.
OUTSIDE_RULES: Final = EXAMPLES / "outside.json"
# Where the example's outside is, as its deployment file says.
OUTSIDE_PORT: Final = 7300

UI: Final = "Web UI"
OUTSIDE: Final = "toy outside"
# In the order of `Ports`.
USUAL: Final[Mapping[str, int]] = {
    "Temporal": 7233,
    UI: 8233,
    "PostgreSQL": 7432,
    OUTSIDE: OUTSIDE_PORT,
}

_LAST_BASE: Final = 65_000


@dataclass(frozen=True, slots=True)
class Plan:
    """What was asked for.

    Attributes:
        data: Kept from one start to the next.
        config: The deployment file; None: as every command finds it, or else the example.
        port_base: The first of four ports in a row; None: the usual ones.
    """

    data: Path
    config: Path | None = None
    headless: bool = False
    worker: bool = True
    port_base: int | None = None


@dataclass(frozen=True, slots=True)
class Ports:
    """Where each part listens."""

    temporal: int
    ui: int
    postgres: int
    outside: int


def choose_ports(base: int | None, say: Say, idle: Collection[str] = ()) -> Ports:
    """Those from ``base`` on; or the usual ports, each replaced by a free one if it is taken.

    Args:
        base: The first of four; None: the usual ones.
        say: Is told of a replaced port.
        idle: What is not started, so that its port does not matter.

    Raises:
        SetupError: ``base`` leaves no room for four ports, or one of them is taken.
    """
    if base is not None:
        return _ports_from(base, idle)
    return Ports(
        *(port if name in idle else _choose(name, port, say) for name, port in USUAL.items())
    )


def _ports_from(base: int, idle: Collection[str]) -> Ports:
    """What was asked for is there or is not: who names a port has told others of it."""
    if not 1 <= base <= _LAST_BASE:
        raise SetupError(f"--port-base must lie between 1 and {_LAST_BASE}")
    for port, name in enumerate(USUAL, start=base):
        if name not in idle and not port_is_free(port):
            raise SetupError(
                f"port {port}, which --port-base {base} gives to {name}, is taken by another program: stop "
                "that one, or choose another --port-base"
            )
    return Ports(*range(base, base + len(USUAL)))


def all_free(ports: Ports, idle: Collection[str] = ()) -> bool:
    """Whether nobody listens on them, but for those of what is not started."""
    chosen = zip(USUAL, astuple(ports), strict=True)
    return all(name in idle or port_is_free(port) for name, port in chosen)


def _choose(name: str, port: int, say: Say) -> int:
    if port_is_free(port):
        return port
    other = free_port()
    say(f"Port {port} is taken by another program; {name} listens on {other} instead.")
    return other


async def find_config(plan: Plan) -> Path | None:
    """The deployment file that is to be served; None: the example.

    Raises:
        InvalidSettings: It is wrong, the options of its kinds too if a worker is to serve them.
        MissingSecret: Our environment, which that worker gets, has not all secrets that it names.
    """
    chosen = plan.config or deployment.found()
    if chosen is None:
        return None
    settings = deployment.load(chosen)
    if plan.worker:
        await try_kinds(settings, ProcessSecrets())
    return chosen.absolute()


def refuse_beside_another(settings: Settings, port: int) -> None:
    """Where another ledger is named, another deployment is, whose tasks must not meet an empty one.

    Args:
        settings: Of the deployment file; what the environment names comes first.
        port: Of this stack's own ledger.

    Raises:
        SetupError: What is named is not this stack's.
    """
    named = settings.named_ledger
    if named is None:
        return
    found = urlsplit(named)
    if (found.hostname, found.port) not in {("127.0.0.1", port), ("localhost", port)}:
        raise SetupError(
            f"this deployment's ledger is the one at {address(named)}, and a development stack has one of "
            "its own, which knows nothing of what was sent and would send it again: start what does not run "
            f"of that deployment, or unset {LEDGER_VARIABLE}, {LEDGER_FILE_VARIABLE} and [ledger] url first"
        )


def example_config(data: Path, outside_url: str) -> Path:
    """The example's deployment file, or a copy of it for an outside that is somewhere else."""
    usual = f"http://127.0.0.1:{OUTSIDE_PORT}"
    if outside_url == usual:
        return EXAMPLE
    copy = data / "ascertain.toml"
    copy.write_text(EXAMPLE.read_text("utf-8").replace(usual, outside_url), "utf-8")
    return copy


def worker_environment(stack: Stack, ours: Mapping[str, str]) -> dict[str, str]:
    """Our own variables, with everything that says where Temporal and the ledger are replaced.

    What a person has set for another server (an address, a key, a certificate) must not reach this one.
    """
    kept = {name: value for name, value in ours.items() if not name.startswith("TEMPORAL_")}
    return kept | stack.environment | {"TEMPORAL_CONFIG_FILE": os.devnull}


def program(*arguments: str) -> tuple[str, ...]:
    """A command line of ours; ``-P`` keeps the folder we are in from hiding our own packages."""
    return (sys.executable, "-P", "-m", *arguments)
