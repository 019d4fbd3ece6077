"""Type variables of the public functions: what a user's function takes and returns, and what it returns aside.

Not for anything that exists when a program runs.
"""

from __future__ import annotations

from typing import ParamSpec, TypeVar

__all__ = ["Args", "Aux", "Out", "Tree"]

#: the parameters of a function, which its transformed version has too
Args = ParamSpec("Args")
#: what a function returns
Out = TypeVar("Out")
#: what it returns aside, under ``has_aux=True``
Aux = TypeVar("Aux")
#: a tree that comes back as it went in
Tree = TypeVar("Tree")
