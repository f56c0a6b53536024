"""Serve localstripe to this machine alone, out of memory. Run by file; the argument is the port.

By itself it listens on every interface, needs IPv6, and writes all its state into one file of a fixed
name in the shared temporary folder at every step. What it answers is left alone. It is somebody else's
program under its own licence, so nothing of ours imports it: it runs as a process of its own.
"""

from __future__ import annotations

import sys
from importlib import import_module

from aiohttp import web


def main() -> None:
    """Listen on 127.0.0.1 until SIGTERM."""
    import_module("localstripe.resources").Store.dump_to_disk = _keep_in_memory
    app = import_module("localstripe.server").app
    web.run_app(app, host="127.0.0.1", port=int(sys.argv[1]), print=None)


def _keep_in_memory(_store: object) -> None:
    """Write nothing."""


if __name__ == "__main__":
    main()
