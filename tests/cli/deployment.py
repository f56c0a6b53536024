"""The deployment that the command's tests talk to."""

from __future__ import annotations

import json
from pathlib import Path

# Times are those of a loopback provider: a request that was sent takes effect at once or never.
# A permit does not run out on a busy machine; whatever its worker learns ends it at once.
TIMES = "lease = 10, retry_base = 0.1, ask_first = 0.05, held_recheck = 300"
WATCHED = ', four_eyes = { field = "amount", above = 100 }'


def write_config(folder: Path, url: str) -> Path:
    """A file with a kind that can be asked for, one that cannot, and one that takes two persons."""
    path = folder / "deployment.toml"
    path.write_text(
        'task_queue = "cli"\n'
        "sweep_every = 3600\n"  # what a test leaves behind stands as it is until that looks at it
        + _kind("note.create", url, lookup=True)
        + _kind("note.blind", url)
        + _kind("note.watched", url, more=WATCHED)
    )
    return path


def _kind(name: str, url: str, *, lookup: bool = False, more: str = "") -> str:
    asked = """
[kinds."NAME".options.lookup]
by = "reference"
lag = 0
url = "/facts"
params = { reference = "{effect_id}" }
items = "data"
paging = { param = "cursor", next = "cursor" }
match = { reference = "{effect_id}" }
external_id = "id"

[kinds."NAME".options.census]
url = "/facts"
items = "data"
paging = { param = "cursor", next = "cursor" }
match = { reference = "{effect_id}" }
external_id = "id"
"""
    text = f"""
[kinds."NAME"]
adapter = "http"
semantics = {{ in_flight_max = 0.2 }}
policy = {{ {TIMES}{more} }}

[kinds."NAME".options]
base_url = {json.dumps(url)}
timeout = 3

[kinds."NAME".options.request]
method = "POST"
url = "/facts"
json = {{ reference = "{{effect_id}}", text = "{{input.text}}" }}

[kinds."NAME".options.proof]
external_id = "id"
equals = {{ reference = "{{effect_id}}" }}
"""
    return (text + (asked if lookup else "")).replace("NAME", name)
