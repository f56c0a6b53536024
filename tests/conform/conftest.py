from __future__ import annotations

import sys
from pathlib import Path

# What the tutorial has its reader copy; the wrong ones are made of it.
sys.path.insert(0, str(Path(__file__).parents[2] / "examples" / "adapter"))
