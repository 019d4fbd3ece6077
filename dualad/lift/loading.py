"""Load a user's module from a path or a dotted name, and load it a second time with other import targets.

The second loading executes the module's source in a fresh namespace whose ``__builtins__`` is a private copy with its
own ``__import__``: ``import numpy as np``, ``import numpy.linalg as la``, ``from scipy.special import erf`` then reach
the replacements given for ``numpy`` and ``scipy``, in that module, in the modules of its own package (or folder) that
it imports, and in imports that run later, inside functions. Nothing is monkey-patched: ``sys.modules["numpy"]``,
NumPy itself and the first loading of the module stay as they are.

This room is *not* for deciding what to replace by what (the JAX oracle does that), and not for finding functions or
points inside a module (the command line does that). ``lift`` loads nothing twice.
"""

from __future__ import annotations

import builtins
import functools
import importlib
import importlib.util
import itertools
import re
import site
import sys
import sysconfig
from collections.abc import Mapping
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

from dualad.base.locks import new_lock
from dualad.errors import LoadingError

__all__ = ["library_folders", "load_again", "load_module", "source_module_name"]

# A private loading is registered in sys.modules as "pkg@3.sub": dataclasses, typing and pickle look modules up by
# name while a class body runs, and the name must not collide with the ordinary import of the same module.
_TAG = re.compile(r"@\d+")
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


def load_again(module: ModuleType, replacements: Mapping[str, Any]) -> ModuleType:
    """Execute a loaded module's source a second time, its imports pointing elsewhere.

    Every spelling of an import reaches the replacement, and so do attributes (``np.linalg`` after ``import numpy as
    np``). A name that the replacement lacks (``np.random`` of ``jax.numpy``) is taken from the original, so that a
    module which merely imports it still loads; an oracle whose arrays refuse to enter the original says so when the
    function is called.

    ``replacements`` are modules or namespaces by name, ``{"numpy": jax.numpy, "scipy": jax.scipy}``; the longest
    matching name wins. A module without Python source, or one that raises with them, is a LoadingError.

    >>> import types, statistics
    >>> from dualad.lift.loading import load_again
    >>> again = load_again(statistics, {"math": types.SimpleNamespace(sqrt=lambda x: "replaced")})
    >>> again.sqrt(2.0), statistics.sqrt(4.0)
    ('replaced', 2.0)
    """
    file = getattr(module, "__file__", None)
    name = source_module_name(module)
    if file is None or not str(file).endswith(".py"):
        raise LoadingError(
            f"You asked to load {name!r} a second time.",
            f"A second loading executes the source, and this module has no Python source file ({file!r}).",
            "Put the function into a .py file and load that.",
        )
    path = Path(file).resolve()
    if name == "__main__":
        spec = getattr(module, "__spec__", None)
        name = path.stem if spec is None else spec.name
    is_package = path.name == "__init__.py"
    depth = name.count(".") + (1 if is_package else 0)
    if len(path.parents) <= depth:
        raise LoadingError(
            f"You asked to load {name!r} a second time.",
            f"It claims to come from {path}, which is not deep enough for its dotted name.",
            "Load the module from its path.",
        )
    loading = _Loading(root=path.parents[depth], target=name, replacements=replacements)
    return loading.load(name, file=path)


def source_module_name(module: ModuleType | str) -> str:
    """Return the name a module, or ``__module__``, has in its source tree: ``"pkg.sub"`` of ``"pkg@3.sub"``."""
    return _TAG.sub("", module if isinstance(module, str) else module.__name__)


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
    return _Loading(root=root, target=".".join(names), replacements={}).load(".".join(names), file=path)


def _explain_import(what: str, error: BaseException) -> LoadingError:
    """Return the error for a module that was found and raised while it ran."""
    return LoadingError(
        f"{what} does not import: {type(error).__name__}: {error}",
        "A module is executed before any function of it can be found.",
        "Make it importable by itself first (python FILE, or python -c 'import MODULE'), and install what it needs.",
    )


class _Loading:
    """One private set of modules: the target, and what it imports from its own package or folder."""

    def __init__(self, root: Path, target: str, replacements: Mapping[str, Any]) -> None:
        self.root = root
        self.tag = f"@{next(_numbers)}"
        self.replacements = dict(replacements)
        self.modules: dict[str, ModuleType] = {}
        self.views: dict[str, _RedirectedModule] = {}
        self.lock = new_lock()
        self.top = target.partition(".")[0]
        # Beside a lone file, its folder is what Python itself would search first; a package owns only itself, and a
        # library folder (site-packages) is nobody's own.
        lone = "." not in target and not (root / target / "__init__.py").is_file()
        self.owns_siblings = lone and root not in library_folders()
        self.builtins = dict(vars(builtins)) | {"__import__": self.import_name}

    # -- imports ------------------------------------------------------------------------------------------------

    def import_name(
        self,
        name: str,
        globals: Mapping[str, Any] | None = None,
        locals: Mapping[str, Any] | None = None,
        fromlist: Any = (),
        level: int = 0,
    ) -> Any:
        """Stand in for ``__import__`` (same signature) in the modules of this loading."""
        full = self.absolute_name(name, globals, level)
        if self.is_replaced(full):
            return self.import_replaced(full, fromlist)
        if self.is_own(full):
            module = self.load(full)
            if not fromlist:
                return self.modules[full.partition(".")[0]] if level == 0 else module
            if hasattr(module, "__path__"):
                self.load_submodules(full, module, fromlist)
            return module
        if level > 0:
            # A relative import that leaves the private modules (a compiled submodule): the ordinary one serves it.
            return builtins.__import__(full, None, None, fromlist or ("",), 0)
        return builtins.__import__(name, globals, locals, fromlist, level)

    @staticmethod
    def absolute_name(name: str, globals: Mapping[str, Any] | None, level: int) -> str:
        """Return the dotted name in the source tree, relative imports resolved."""
        if level == 0:
            return source_module_name(name)
        package = source_module_name((globals or {}).get("__package__") or "")
        if not package:
            raise ImportError("attempted relative import with no known parent package")
        return importlib.util.resolve_name("." * level + name, package)

    # -- the module's own package or folder ---------------------------------------------------------------------

    def is_own(self, full: str) -> bool:
        """Say whether `full` belongs to the target's package, or lies beside the target's file."""
        if full in self.modules:
            return True
        top = full.partition(".")[0]
        if top == "dualad":  # a second engine would not know the tensors of the first
            return False
        if top != self.top and not (self.owns_siblings and self.find(top) is not None):
            return False
        spec = self.find(full)
        # What can be executed anew: Python source, or a folder without ``__init__.py``.
        return spec is None or spec.origin is None or spec.origin.endswith(".py")

    def find(self, full: str) -> ModuleSpec | None:
        """Return where `full` is found under the root, or None."""
        parent, _, child = full.rpartition(".")
        if not parent:
            spec = PathFinder.find_spec(full, [str(self.root)])
            # A folder without __init__.py is only a namespace package when the target itself lies in it.
            if spec is not None and spec.origin is None and full != self.top:
                return None
            return spec
        if parent not in self.modules:
            if not self.is_own(parent):
                return None
            self.load(parent)
        path = getattr(self.modules[parent], "__path__", None)
        return None if path is None else PathFinder.find_spec(f"{parent}.{child}", list(path))

    def load(self, full: str, file: Path | None = None) -> ModuleType:
        """Return the private module `full`, executing it the first time."""
        with self.lock:
            if full in self.modules:
                return self.modules[full]
            parent, _, child = full.rpartition(".")
            if parent:
                self.load(parent)
                if full in self.modules:  # the parent's own imports may have loaded it
                    return self.modules[full]
            spec = self.find(full)
            if spec is None and file is not None:
                spec = importlib.util.spec_from_file_location(full, file)
            if spec is None:
                raise ModuleNotFoundError(f"No module named {full!r}", name=full)
            module = self.execute(full, spec)
            if parent:
                setattr(self.modules[parent], child, module)
            return module

    def execute(self, full: str, spec: ModuleSpec) -> ModuleType:
        """Run the source of `spec` in a fresh module with the private builtins."""
        top, dot, rest = full.partition(".")
        name = f"{top}{self.tag}{dot}{rest}"
        module = ModuleType(name)
        locations = spec.submodule_search_locations
        namespace = vars(module)
        namespace["__builtins__"] = self.builtins
        namespace["__package__"] = name if locations is not None else name.rpartition(".")[0]
        namespace["__spec__"] = importlib.util.spec_from_file_location(name, spec.origin) if spec.origin else None
        namespace["__loader__"] = spec.loader
        if locations is not None:
            namespace["__path__"] = list(locations)
        self.modules[full] = module
        sys.modules[name] = module
        if spec.origin is None:  # a namespace package has no source
            return module
        namespace["__file__"] = spec.origin
        try:
            code = spec.loader.get_code(spec.name)  # type: ignore[union-attr]
            exec(code, namespace)
        except BaseException as error:
            del self.modules[full], sys.modules[name]
            if isinstance(error, (LoadingError, KeyboardInterrupt)):
                raise
            redirected = f" (with {', '.join(self.replacements)} redirected)" if self.replacements else ""
            raise _explain_import(f"{spec.origin}{redirected}", error) from error
        # A module may put something else in its own place in sys.modules; the import system honours that.
        self.modules[full] = sys.modules.get(name, module)
        return self.modules[full]

    def load_submodules(self, full: str, module: ModuleType, fromlist: Any) -> None:
        """Load ``from package import submodule`` names that are not attributes yet."""
        names = list(fromlist)
        if "*" in names:
            names = [n for n in names if n != "*"] + list(getattr(module, "__all__", ()))
        for name in names:
            submodule = f"{full}.{name}"
            if hasattr(module, name) or self.find(submodule) is None:
                continue
            if self.is_own(submodule):
                self.load(submodule)
            else:
                setattr(module, name, importlib.import_module(submodule))

    # -- replaced modules ---------------------------------------------------------------------------------------

    def is_replaced(self, full: str) -> bool:
        """Say whether `full`, something above it or something below it has a replacement."""
        return any(full == n or full.startswith(n + ".") or n.startswith(full + ".") for n in self.replacements)

    def import_replaced(self, full: str, fromlist: Any) -> Any:
        """Answer an import statement of a replaced module: the top package, or the module when names follow."""
        parts = full.split(".")
        for end in range(1, len(parts) + 1):
            self.view(".".join(parts[:end]))
        if not fromlist:
            return self.views[parts[0]]
        module = self.views[full]
        for name in fromlist:
            if name != "*" and not hasattr(module, name):
                try:
                    self.view(f"{full}.{name}")  # `special` of `from scipy import special`, not imported before
                except ModuleNotFoundError as error:
                    if error.name != f"{full}.{name}":
                        raise
        return module

    def view(self, full: str) -> _RedirectedModule:
        """Return the stand-in for the replaced module `full`."""
        with self.lock:
            if full not in self.views:
                original = _original_module(full)
                replacement = self.replacement(full)
                if original is None and replacement is None:
                    raise ModuleNotFoundError(f"No module named {full!r}", name=full)
                self.views[full] = _RedirectedModule(full, replacement, original, self)
            return self.views[full]

    def replacement(self, full: str) -> Any:
        """Return what stands in for `full`: given, or found inside what stands in for its parent, or None."""
        if full in self.replacements:
            return self.replacements[full]
        parent, _, child = full.rpartition(".")
        above = self.replacement(parent) if parent else None
        if above is None:
            return None
        if hasattr(above, child):
            return getattr(above, child)
        if isinstance(above, ModuleType) and hasattr(above, "__path__"):
            name = f"{above.__name__}.{child}"
            return importlib.import_module(name) if importlib.util.find_spec(name) is not None else None
        return None


class _RedirectedModule(ModuleType):
    """A module whose names come from a replacement, and from the original where the replacement has none."""

    def __init__(self, name: str, replacement: Any, original: ModuleType | None, loading: _Loading) -> None:
        super().__init__(name)
        self._replacement = replacement
        self._original = original
        self._loading = loading
        if original is not None and hasattr(original, "__path__"):
            self.__path__: list[str] = []

    def __getattr__(self, name: str) -> Any:
        if name == "__all__":
            namespace = self._original if self._original is not None else self._replacement
            names = getattr(namespace, "__all__", None)
            return list(names) if names is not None else [n for n in dir(namespace) if not n.startswith("_")]
        value = self._lookup(name)
        vars(self)[name] = value
        return value

    def _lookup(self, name: str) -> Any:
        full = f"{self.__name__}.{name}"
        if not name.startswith("__") and self._loading.replacement(full) is not None:
            found = self._loading.replacement(full)
            original = getattr(self._original, name, None)
            # A submodule becomes a stand-in too (its own gaps are filled from the original); a function is itself.
            return self._loading.view(full) if isinstance(original, ModuleType) else found
        if self._replacement is not None and hasattr(self._replacement, name):
            return getattr(self._replacement, name)  # None itself, or a dunder
        if self._original is not None and hasattr(self._original, name):
            value = getattr(self._original, name)
            below = any(n.startswith(full + ".") for n in self._loading.replacements)
            return self._loading.view(full) if below and isinstance(value, ModuleType) else value
        raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}, nor has {self._replacement!r}")

    def __dir__(self) -> list[str]:
        return sorted({*dir(self._original), *dir(self._replacement)})

    def __repr__(self) -> str:
        target = getattr(self._replacement, "__name__", type(self._replacement).__name__)
        return f"<module {self.__name__!r} redirected to {target!r}>"


def _original_module(full: str) -> ModuleType | None:
    """Import the module that is being replaced, or return None when it is not installed."""
    try:
        return importlib.import_module(full)
    except ModuleNotFoundError as error:
        if error.name is not None and (full == error.name or full.startswith(error.name + ".")):
            return None
        raise


@functools.cache
def library_folders() -> frozenset[Path]:
    """Return the folders of installed packages and of the standard library: files there are no neighbours."""
    folders = {sysconfig.get_path(key) for key in ("stdlib", "platstdlib", "purelib", "platlib")}
    folders.update(site.getsitepackages())
    folders.add(site.getusersitepackages())
    return frozenset([Path(folder).resolve() for folder in folders if folder])
