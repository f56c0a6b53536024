"""The audit of the pins, with a service of advisories of our own."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

from starter.process import free_port

ROOT = Path(__file__).parents[1]
ADVISORY = "PYSEC-2099-1"
PIN = re.compile(r"^(?P<name>[a-z0-9-]+)==(?P<version>\S+) \\$", re.MULTILINE)


def pins() -> set[tuple[str, str]]:
    """What every machine installs, of all files."""
    texts = [path.read_text() for path in ROOT.glob("requirements*.txt")]
    return {(pin["name"], pin["version"]) for text in texts for pin in PIN.finditer(text)}


@contextmanager
def advisories(vulnerable: str = "") -> Iterator[tuple[str, set[tuple[str, str]]]]:
    """Speaks OSV's query API; one package is vulnerable in every version. With what was asked for."""
    asked: set[tuple[str, str]] = set()

    class Answer(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            query = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            package = query["package"]
            assert package["ecosystem"] == "PyPI"
            asked.add((package["name"], query["version"]))
            found = {"id": ADVISORY, "summary": "Made up.", "affected": [{"package": package}]}
            body = {"vulns": [found]} if package["name"] == vulnerable else {}
            self.send_response(HTTPStatus.OK)
            self.end_headers()
            self.wfile.write(json.dumps(body).encode())

        def log_message(self, *_: object) -> None:
            """Nothing is written of it."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Answer) as server:
        Thread(target=server.serve_forever).start()
        yield f"http://127.0.0.1:{server.server_port}/v1/query", asked
        server.shutdown()


def audit(url: str, home: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [ROOT / ".ci" / "audit", "--osv-url", url],
        env={"PATH": os.environ["PATH"], "HOME": str(home)},
        capture_output=True,
        check=False,
        text=True,
    )


def test_pins_of_which_nothing_is_known_pass_once_each_was_asked_for(tmp_path):
    with advisories() as (url, asked):
        ended = audit(url, tmp_path)
    assert ended.returncode == 0, ended.stderr
    assert "no known vulnerability" in ended.stderr
    assert pins() <= asked


def test_a_vulnerable_pin_is_named_with_its_advisory(tmp_path):
    with advisories("rfc8785") as (url, _):
        ended = audit(url, tmp_path)
    assert ended.returncode == 1
    assert re.search(rf"^rfc8785 +\S+ +{ADVISORY}", ended.stdout, re.MULTILINE)
    assert "Vulnerable" in ended.stderr


def test_advisories_that_cannot_be_asked_for_are_no_verdict(tmp_path):
    ended = audit(f"http://127.0.0.1:{free_port()}/v1/query", tmp_path)
    assert ended.returncode == 2
    assert "nothing is known" in ended.stderr
    assert "Traceback" not in ended.stdout + ended.stderr
