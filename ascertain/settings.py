"""The deployment file: which kinds of effect there are, what does them, where the ledger is.

::

    [ledger]
    url = "postgresql://ascertain@db/ascertain"      # or ASCERTAIN_LEDGER_URL, or ..._URL_FILE

    [outside]
    hosts = ["api.stripe.com", "10.1.2.0/24"]        # nothing else is called; left out: what the kinds name

    [kinds."stripe.charge"]
    adapter = "stripe"                               # built in, an entry point, or "module:factory"
    options = { api_base = "https://api.stripe.com", api_key = "secret:STRIPE_KEY" }
    semantics = { idempotent_for = "PT24H", lookup = "listing", lag = "PT10S" }
    policy = { budget = 5, lease = "PT5S" }

    [[breakers]]                                     # each partition by itself, unless one is named
    unknown_share = 0.3
    lag = "PT15M"

Durations are ISO 8601 or seconds. The connection to Temporal is not here: it comes from Temporal's own
environment configuration (``TEMPORAL_ADDRESS``, ``TEMPORAL_NAMESPACE``, ``TEMPORAL_PROFILE``, ...).
"""

from __future__ import annotations

import json
import os
import tomllib
from datetime import timedelta
from hashlib import sha256
from pathlib import Path
from typing import Annotated

from pydantic import Field, JsonValue, PrivateAttr, StringConstraints, ValidationError
from typing_extensions import override

from ascertain.contracts import names
from ascertain.contracts.breaker import Breaker
from ascertain.contracts.fault import faults
from ascertain.contracts.semantics import Policy
from ascertain.contracts.value import JsonObject, KindName, StrictValue
from ascertain.errors import InvalidSettings

Host = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9*:._/-]{1,253}$")]
Address = Annotated[
    str, StringConstraints(pattern=r"^(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]+):[0-9]{1,5}$")
]

FILE_VARIABLE = "ASCERTAIN_CONFIG"
LEDGER_VARIABLE = "ASCERTAIN_LEDGER_URL"
LEDGER_FILE_VARIABLE = f"{LEDGER_VARIABLE}_FILE"
DEFAULT_FILE = "ascertain.toml"


class KindSettings(StrictValue):
    """One kind of effect.

    Attributes:
        adapter: A built-in one (``http`` ...), an installed entry point, or ``module:factory``.
        options: The adapter's own; a value ``secret:NAME`` names a secret.
        semantics: Only what differs from the adapter's own declaration.
        policy: What this deployment chooses for the kind.
        measured: The file that `ascertain conform --write` made, relative to where workers were started.
            What was seen to be broken of the semantics is taken off; nothing is added.
    """

    adapter: str
    options: JsonObject = Field(default_factory=dict)
    semantics: dict[str, JsonValue] = Field(default_factory=dict)
    policy: Policy = Policy()
    measured: str | None = None

    @property
    def digest(self) -> str:
        """Tells this table from others; of a secret it covers the name alone, for no more stands here."""
        told = self.model_dump(mode="json", exclude_defaults=True)
        return sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()


class LedgerSettings(StrictValue):
    """Where the ledger is.

    Attributes:
        url: Of PostgreSQL; the environment's ``ASCERTAIN_LEDGER_URL`` comes first.
        connections: Most connections of one process.
    """

    url: str | None = None
    connections: Annotated[int, Field(ge=1, le=100)] = 8


class OutsideSettings(StrictValue):
    """Which hosts the adapters may call; None: whatever the options of the kinds name.

    Attributes:
        hosts: Such as ``api.stripe.com``, ``*.example.com``, ``10.1.2.0/24``. With a list, addresses that are
            not public are called only where they, or a network of theirs, are listed. Holds for every
            built-in adapter.
    """

    hosts: tuple[Host, ...] | None = None


class WorkerSettings(StrictValue):
    """Where each worker can be watched; one that shares a machine with others says so on its command line.

    Attributes:
        metrics: ``HOST:PORT`` of ``/metrics``, ``/live`` and ``/ready``; None: nothing is served.
        temporal_metrics: ``HOST:PORT`` of the Temporal SDK's own ``/metrics``.
    """

    metrics: Address | None = None
    temporal_metrics: Address | None = None


class Settings(StrictValue):
    """A whole deployment file.

    Attributes:
        ledger: Where the ledger is.
        outside: Which hosts may be called at all.
        worker: Where workers can be watched.
        task_queue: Where workflows and inline effects run; one for each deployment.
        kinds: The kinds of effect, by name.
        breakers: When the gates of partitions close by themselves; none: never.
        sweep_every: How often effects are looked for whose workflow is gone; an effect of an ended
            workflow is shown as UNKNOWN after at most twice that. 0: never.
        census_every: How often the outside's own lists are compared with the ledger; 0: never.
        census_since: How far back each of these censuses looks.
        snapshots: Where workers write the snapshots of incidents, relative to where they were started.
    """

    ledger: LedgerSettings = LedgerSettings()
    outside: OutsideSettings = OutsideSettings()
    worker: WorkerSettings = WorkerSettings()
    task_queue: str = names.TASK_QUEUE
    sweep_every: Annotated[timedelta, Field(ge=timedelta(0))] = timedelta(minutes=1)
    census_every: Annotated[timedelta, Field(ge=timedelta(0))] = timedelta(days=1)
    census_since: Annotated[timedelta, Field(gt=timedelta(0))] = timedelta(days=7)
    snapshots: str = "snapshots"
    kinds: dict[KindName, KindSettings] = Field(default_factory=dict)
    breakers: tuple[Breaker, ...] = ()

    _file: Path | None = PrivateAttr(default=None)

    @override
    def model_post_init(self, context: object, /) -> None:
        """Remember the file that they were read from, which the context names."""
        self._file = context if isinstance(context, Path) else None

    def faulty(self, why: str) -> InvalidSettings:
        """What is wrong with them, for whoever finds that out later than `load`; names their file."""
        return InvalidSettings(
            why if self._file is None else f"the deployment file {self._file}: {why}"
        )

    @property
    def ledger_url(self) -> str:
        """The ledger's address: the environment's, or else the deployment file's.

        Raises:
            InvalidSettings: Neither names one, or the file that the environment names cannot be read.
        """
        url = self.named_ledger
        if not url:
            raise InvalidSettings(
                f"no ledger: set {LEDGER_VARIABLE}, {LEDGER_FILE_VARIABLE} or [ledger] url in the "
                "deployment file, or start a development stack with `ascertain dev` (ASCERTAIN_DATA names "
                "one that is kept elsewhere)"
            )
        return url

    @property
    def named_ledger(self) -> str | None:
        """The ledger's address, if anything names one.

        Raises:
            InvalidSettings: The file that the environment names cannot be read.
        """
        return named_address(LEDGER_VARIABLE) or self.ledger.url


def named_address(variable: str) -> str | None:
    """The address, with its password, that the environment names.

    Args:
        variable: Holds it, or the same with ``_FILE`` names a file that does: so platforms hand secrets over.

    Raises:
        InvalidSettings: That file cannot be read.
    """
    said, file = os.environ.get(variable), os.environ.get(f"{variable}_FILE")
    if said or not file:
        return said or None
    try:
        return Path(file).read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError):
        raise InvalidSettings(f"{variable}_FILE names {file}, which cannot be read") from None


def load(path: Path | None = None) -> Settings:
    """Read the deployment file: the given one, ``$ASCERTAIN_CONFIG``, or ``./ascertain.toml`` if it is there.

    Raises:
        InvalidSettings: The file is named but missing, is not TOML, or a key is wrong; the message
            names the file and the key.
    """
    named = path or found()
    if named is None:
        return Settings()
    try:
        return Settings.model_validate(tomllib.loads(named.read_text("utf-8")), context=named)
    except FileNotFoundError:
        raise InvalidSettings(f"the deployment file {named} does not exist") from None
    except OSError as error:
        raise InvalidSettings(
            f"cannot read the deployment file {named}: {error.strerror}"
        ) from error
    except UnicodeDecodeError as error:
        where = f"byte {error.start + 1} cannot be read"
        raise InvalidSettings(f"the deployment file {named} is not UTF-8: {where}") from None
    except tomllib.TOMLDecodeError as error:
        raise InvalidSettings(f"the deployment file {named} is not TOML: {error}") from error
    except ValidationError as error:
        words = faults(error, "the whole", form=Settings)
        raise InvalidSettings(f"the deployment file {named}: {words}") from None


def found() -> Path | None:
    """The file that counts where none is given: ``$ASCERTAIN_CONFIG``, or ``./ascertain.toml``; or None."""
    named = os.environ.get(FILE_VARIABLE)
    if named:
        return Path(named)
    default = Path(DEFAULT_FILE)
    return default if default.exists() else None
