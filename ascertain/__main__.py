"""``python -m ascertain``: the ``ascertain`` command."""

from __future__ import annotations

import sys

from ascertain.cli import main

if __name__ == "__main__":
    sys.exit(main())
