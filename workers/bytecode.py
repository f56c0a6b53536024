"""The code of sandboxed modules, read once: the sandbox imports them anew for every task.

Without this every task reads the files again, or compiles them where no bytecode is written
(``PYTHONDONTWRITEBYTECODE``, as images often set it), and a file that is replaced below a running worker
mixes two releases.
"""

from __future__ import annotations

import sys
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from importlib.util import spec_from_file_location
from typing import TYPE_CHECKING

from typing_extensions import override

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import CodeType, ModuleType


def keep(*packages: str) -> None:
    """Import the modules of these packages in this process from code that is read once for each."""
    kept = next((finder for finder in sys.meta_path if isinstance(finder, _Finder)), None)
    if kept is None:
        kept = _Finder()
        sys.meta_path.insert(0, kept)
    kept.packages.update(packages)


class _Finder(MetaPathFinder):
    def __init__(self) -> None:
        self.packages: set[str] = set()
        self._loaders: dict[str, _Loader] = {}

    @override
    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """What the path finder finds, with a loader that stays."""
        if fullname.partition(".")[0] not in self.packages:
            return None
        loader = self._loaders.get(fullname)
        if loader is None:
            found = PathFinder.find_spec(fullname, path, target)
            if found is None or not isinstance(found.loader, SourceFileLoader):
                return found
            loader = self._loaders[fullname] = _Loader(fullname, found.loader.path)
        return spec_from_file_location(fullname, loader.path, loader=loader)


class _Loader(SourceFileLoader):
    _code: CodeType | None = None

    @override
    def get_code(self, fullname: str) -> CodeType | None:
        """The module's code, as it was at the first import."""
        if self._code is None:
            self._code = super().get_code(fullname)
        return self._code
