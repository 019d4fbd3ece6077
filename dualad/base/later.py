"""Public names whose modules are loaded when they are first asked for: ``import dualad`` stays quick.

For: ``dualad/__init__.py``, which lists such names by module. ``from dualad import scan``, ``dualad.scan``, ``dir``,
``import *`` and type checkers see them as if they were there. Not for: what the names mean, or SciPy's namespaces.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

__all__ = ["load_everything", "load_later"]

_promised: dict[str, list[str]] = {}


class _Door(ModuleType):
    """A package of which a module may have the name of what it defines (``dualad.vmap`` of ``dualad/vmap.py``).

    When such a module is imported, Python binds it to its name in the package, where users expect the function.
    """

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(value, ModuleType) and name in self.__all__ and hasattr(value, name):
            value = getattr(value, name)
        super().__setattr__(name, value)

    def __reduce__(self):
        # By name, as cloudpickle does with modules of Python's own class: a function that says `da.` travels.
        return importlib.import_module, (self.__name__,)


def load_later(
    package: str, rooms: Mapping[str, tuple[str, ...]], packages: tuple[str, ...] = ()
) -> tuple[Callable[[str], Any], Callable[[], list]]:
    """Make ``__getattr__`` and ``__dir__`` of a package that has names without having loaded their modules.

    ``rooms`` are, for each module of the package, the public names it defines; ``packages`` those inside it that are
    public themselves (``dualad.scipy``).
    """
    home = {name: room for room, names in rooms.items() for name in names}
    module = sys.modules[package]
    module.__class__ = _Door
    _promised[package] = list(home)

    def __getattr__(name: str) -> Any:
        if name not in home:
            if name in packages:
                return importlib.import_module(f"{package}.{name}")
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(f"{package}.{home[name]}"), name)
        vars(module)[name] = value
        return value

    def __dir__() -> list[str]:
        # Modules are left out, which are there only because they have been imported.
        return sorted({*module.__all__, *packages, *[name for name in vars(module) if name.startswith("__")]})

    return __getattr__, __dir__


def load_everything() -> None:
    """Load all modules that were left for later: the table of operators is complete then."""
    for package, names in _promised.items():
        for name in names:
            getattr(sys.modules[package], name)
