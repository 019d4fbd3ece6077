"""Import statements inside functions: code in which ``import numpy as np`` reaches ``dualad.numpy``.

For: ``redirected``, which gives a code object whose imports of the redirected packages name their counterparts. Python
asks the interpreter's own ``__import__`` for such a statement, so the name in the code is what has to change. Not for:
imports at the top of a module, whose names are swapped (``places.py``).
"""

from __future__ import annotations

import dis
import importlib
import importlib.util
import sys
import types
import weakref
from typing import Any

from .targets import Table

__all__ = ["redirect_imports"]

_IMPORT_NAME = dis.opmap["IMPORT_NAME"]

# A code object (its id, not what it says), its package, and a table -> the code with other imports; None if unchanged.
_made: dict[tuple[int, str | None, str], types.CodeType | None] = {}


def redirect_imports(code: types.CodeType, package: str | None, table: Table) -> types.CodeType | None:
    """Return code whose imports of redirected modules reach their counterparts, or None if it has none.

    Modules of its own ``package`` that it imports are loaded now, so that their names can be swapped with all others;
    none if ``package`` is None.
    """
    key = id(code), package, table.mark
    if key not in _made:
        _made[key] = _change(code, package, table)
        weakref.finalize(code, _made.pop, key, None)
    return _made[key]


def _change(code: types.CodeType, package: str | None, table: Table) -> types.CodeType | None:
    constants, inner = list(code.co_consts), False
    for i, constant in enumerate(constants):
        if isinstance(constant, types.CodeType):
            new = redirect_imports(constant, package, table)
            if new is not None:
                constants[i], inner = new, True
    names, instructions = list(code.co_names), bytearray(code.co_code)
    for offset, name in _imports(code, package, table):
        module = table.module_for(name)
        if module in (None, sys.modules.get(name)) or len(names) > 255:  # an argument of one byte
            continue
        alias = _alias(name, module, table)
        if alias not in names:
            names.append(alias)
        instructions[offset + 1] = names.index(alias)
    if not inner and len(names) == len(code.co_names):
        return None
    return code.replace(co_code=bytes(instructions), co_names=tuple(names), co_consts=tuple(constants))


def _imports(code: types.CodeType, package: str | None, table: Table) -> list[tuple[int, str]]:
    """Return where the redirected modules are imported; load what else is imported from the package."""
    if _IMPORT_NAME not in code.co_code[::2]:
        return []
    found: list[tuple[int, str]] = []
    last: list[Any] = [None, None]
    for step in dis.get_instructions(code):
        if step.opcode == _IMPORT_NAME:
            level, names = last
            if level:
                name = importlib.util.resolve_name("." * level + step.argval, package) if package else ""
            else:
                name = step.argval
            top = name.partition(".")[0]
            if table.module_for(top) is not None and code.co_names[step.arg or 0] == step.argval:
                found.append((step.offset, name))
            elif package and top == package.partition(".")[0]:
                _load(name, names or ())
        if step.opname.startswith("LOAD_"):
            last = [last[1], step.argval]
    return found


def _load(name: str, names: tuple) -> None:
    """Load a module that a function would load when it is called; what fails then fails then."""
    try:
        module = importlib.import_module(name)
        for part in names:
            if hasattr(module, "__path__") and not hasattr(module, part):
                importlib.import_module(f"{name}.{part}")
    except Exception:
        return


def _alias(name: str, module: Any, table: Table) -> str:
    """Return the name under which ``sys.modules`` has the counterpart of a module, and of those it lies in."""
    top, *rest = name.split(".")
    parts = [f"{top}@{table.mark}", *rest]
    for i in range(len(rest)):
        sys.modules.setdefault(".".join(parts[: i + 1]), table.module_for(".".join([top, *rest[:i]])))
    sys.modules.setdefault(".".join(parts), module)
    return ".".join(parts)
