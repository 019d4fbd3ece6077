"""Load a user's module from a path or a dotted name.

A file is loaded under a private name, ``pkg@3.sub``, with the modules of its own package, or beside it: whatever they
are called, they meet no other module, and ``sys.path`` stays as it is. ``import helper`` in them, also in functions
that run later, means the file beside them; ``__builtins__`` there is a copy with an ``__import__`` that knows.

For: the command line, and ``modules=`` of ``lift``. Not for: finding functions in a module (``cli/targets.py``).
"""

from __future__ import annotations

import builtins
import functools
import importlib
import importlib.util
import itertools
import site
import sys
import sysconfig
from collections.abc import Mapping, Sequence
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any

from dualad.errors import LoadingError

__all__ = ["library_folders", "load_module"]

# Private modules are in sys.modules under such names: dataclasses, typing and pickle look modules up by name while a
# class body runs.
_numbers = itertools.count(1)


def load_module(target: str | Path) -> ModuleType:
    """Load a module from a file's path or a dotted name.

    A dotted name is imported in the ordinary way. A path is executed under a private name, with the modules beside it
    (or of its package) importable as they are when Python runs the file itself; ``sys.path`` is not changed.

    Parameters
    ----------
    target : str or Path
        ``"package.module"``, or the path of a ``.py`` file, or of a package's folder.

    Returns
    -------
    ModuleType
        The module.

    Raises
    ------
    LoadingError
        When there is no such file or module, or when it raises while it is imported (chained).

    Examples
    --------
    >>> from dualad.lift.loading import load_module
    >>> load_module("json").__name__
    'json'
    """
    text = str(target)
    if isinstance(target, Path) or text.endswith(".py") or "/" in text or "\\" in text:
        return _load_path(Path(target))
    try:
        return importlib.import_module(text)
    except ModuleNotFoundError as error:
        if error.name is not None and (text == error.name or text.startswith(error.name + ".")):
            raise LoadingError(
                f"You asked for the module {text!r}.",
                f"Python finds no module named {error.name!r} from here.",
                "Write the path of the file (path/to/file.py), or run from the folder that contains the package, or "
                "install the package into this environment.",
            ) from error
        raise _explain_import(text, error) from error
    except (Exception, SystemExit) as error:
        raise _explain_import(text, error) from error


def _load_path(path: Path) -> ModuleType:
    """Execute the file at `path` privately, as part of the package it lies in."""
    if path.is_dir() and (path / "__init__.py").is_file():
        path = path / "__init__.py"
    if path.is_dir():
        raise LoadingError(
            f"You asked to load {path}.",
            "It is a folder without __init__.py, so there is no module to execute.",
            "Write the path of a .py file.",
        )
    if not path.exists():
        near = sorted(p.name for p in path.parent.glob("*.py")) if path.parent.is_dir() else []
        there = f" In {path.parent} there are: {', '.join(near[:8])}." if near else ""
        raise LoadingError(
            f"You asked to load {path}.", f"There is no such file.{there}", "Write the path of a .py file that exists."
        )
    if path.suffix != ".py":
        raise LoadingError(
            f"You asked to load {path}.",
            "It is not a .py file, so Python can't execute it.",
            "Write the path of a .py file or a module's dotted name.",
        )
    path = path.resolve()
    names = [] if path.name == "__init__.py" else [path.stem]
    root = path.parent
    while (root / "__init__.py").is_file():
        names.insert(0, root.name)
        root = root.parent
    try:
        return _Private(root, names, path).load()
    except (Exception, SystemExit) as error:
        raise error if isinstance(error, LoadingError) else _explain_import(str(path), error) from error


def _explain_import(what: str, error: BaseException) -> LoadingError:
    """Return the error for a module that was found and raised while it ran."""
    return LoadingError(
        f"{what} does not import: {type(error).__name__}: {error}",
        "A module is executed before any function of it can be found.",
        "Make it importable by itself first (python FILE, or python -c 'import MODULE'), and install what it needs.",
    )


class _Private:
    """One private set of modules: a finder for Python's import system, which does the rest."""

    def __init__(self, root: Path, names: list[str], file: Path) -> None:
        self.root, self.top, self.file = str(root), names[0], str(file)
        self.tagged = f"{self.top}@{next(_numbers)}"
        self.tag = self.tagged.removeprefix(self.top)
        self.name = ".".join([self.tagged, *names[1:]])
        # A lone file has its folder, which Python itself would search first; a package owns only itself, and a folder
        # of installed packages is nobody's own.
        self.owns_siblings = len(names) == 1 and file.name != "__init__.py" and root not in library_folders()
        self.builtins = dict(vars(builtins)) | {"__import__": self.import_name}

    def load(self) -> ModuleType:
        """Return the module, executed now."""
        sys.meta_path.insert(0, self)
        return importlib.import_module(self.name)

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: Any = None) -> ModuleSpec | None:
        """Answer the import system: where a private module is."""
        top, _, rest = name.partition(".")
        if not top.endswith(self.tag):
            return None
        spec = PathFinder.find_spec(name if rest else top.removesuffix(self.tag), path if rest else [self.root])
        file = self.file if name == self.name else None if spec is None else spec.origin
        if file is None or not file.endswith(".py"):  # compiled, or a folder without ``__init__.py``
            return spec
        places = None if spec is None else spec.submodule_search_locations
        loader = _Loader(name, file)
        loader.builtins = self.builtins
        return importlib.util.spec_from_file_location(name, file, loader=loader, submodule_search_locations=places)

    def import_name(
        self, name: str, globals: Mapping | None = None, locals: Mapping | None = None, names: Any = (), level: int = 0
    ) -> Any:  # fmt: skip
        """Stand in for ``__import__`` in the private modules."""
        top, dot, rest = name.partition(".")
        if level == 0 and self.is_own(top):
            name = f"{top}{self.tag}{dot}{rest}"
        return builtins.__import__(name, globals, locals, names, level)

    def is_own(self, top: str) -> bool:
        """Whether a module is the package that is loaded, or lies beside the file."""
        if top == "dualad" or not self.owns_siblings:  # a second engine would not know the tensors of the first
            return top == self.top != "dualad"
        spec = PathFinder.find_spec(top, [self.root])
        return spec is not None and spec.origin is not None and spec.origin.endswith(".py")


class _Loader(SourceFileLoader):
    """Executes a file with private builtins."""

    builtins: dict[str, Any]

    def exec_module(self, module: ModuleType) -> None:
        """Run the source."""
        vars(module)["__builtins__"] = self.builtins
        super().exec_module(module)


@functools.cache
def library_folders() -> frozenset[Path]:
    """Return the folders of installed packages and of the standard library: files there are no neighbours."""
    folders = {sysconfig.get_path(key) for key in ("stdlib", "platstdlib", "purelib", "platlib")}
    folders.update(site.getsitepackages())
    folders.add(site.getusersitepackages())
    return frozenset([Path(folder).resolve() for folder in folders if folder])
