"""Calls from lower floors to higher ones: one record, which ``dualad/wiring.py`` fills and nobody else.

For: the few calls that have to go up, each with its type. Not for: the meaning of NumPy's names (``tables.py``), nor
for what can be imported as it is.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from ..errors import DualadError

__all__ = ["ABOVE"]


class _Above:
    """Functions of higher floors, by what they do."""

    #: carry out a ufunc's method, or a call of it with keywords or operands that need preparation
    ufunc: Callable[[np.ufunc, str, tuple, dict], Any]
    #: the handler of a NumPy function that is in no table yet; raises if there is none
    handler: Callable[[Callable], Callable]
    #: make an argument plain: an array, a tensor or a number
    operand: Callable[[Any], Any]
    #: write a result into ``out``, for the function of this name; return ``out``
    target: Callable[[Any, Any, str], Any]
    #: what NumPy's ``np.asarray`` gets of a tensor, told whether to copy
    object_array: Callable[[Any, bool | None], np.ndarray]
    #: refuse the truth of a number where NumPy's loop over an object array makes a number of it
    truth: Callable[[Any], None]
    #: better words for an error about an object array, or about a sparse matrix; None for other errors
    objects: Callable[[BaseException], DualadError | None]
    sparse: Callable[[BaseException], DualadError | None]
    #: what meets a tensor in the place of a sparse matrix of SciPy's
    sparse_operand: Callable[[Any], Any]
    #: the name in ``dualad.scipy`` of the function of SciPy's that an error comes from, told the frames of the refusal
    mirrored: Callable[[BaseException, list], str | None]
    #: a generator of random numbers whose draws are seen, in place of one of NumPy's
    seeing: Callable[[Any], Any]
    #: a copy of a generator, of whose draws a function is told, which returns what stands for them
    noting: Callable[[Any, Callable | None, dict], Any]
    #: how an argument becomes a setting instead of a tensor, by the name of the transform that has settings
    settings: dict[str, str]
    #: make a linear map SciPy's ``LinearOperator``
    linear_operator: Callable[[Any], Any]
    #: run a plan of chunks by the workers of an executor, or here with a bar
    chunked: Callable[..., list]
    #: a block in which the names of a module, told by its globals, are lifted
    lifted: Callable[[dict], AbstractContextManager]
    #: the block in which a function that has shown to need it is lifted, or None
    lift: Callable[[Callable], Any]
    #: the block in which it is lifted after a refusal outside or inside of one, or None
    lift_after: Callable[[Callable, BaseException, Any], Any]
    #: has the function of the outermost transform lifted in later calls, where code with these globals is slow
    lift_later: Callable[[dict], bool]
    #: what an entry or an attribute of something holds, by its owner and key, when no lifted code runs
    original: Callable[[Any, Any, Any], Any]
    #: compile a program: its ``run``, another one after the first call, takes plain arrays and returns a tuple
    compiled: Callable[[Any], Any]
    #: the same to machine code, all of it, or None: llvmlite is not there, or knows no such code
    machine_code: Callable[[Any], Any]
    #: the extension through which machine code is called, or None
    extension: Callable[[], Any]
    #: compile a function, for each signature of its arguments
    jitted: Callable[[Callable], Callable]
    #: solve ∂f(x, *parameters)·v = b by factorizing the sparse Jacobian of f in x, unless it has too large a share of
    #: entries
    sparse_solve: Callable[..., Any]
    #: make the sparse Jacobian of a function, and the sparse Hessian
    sparse_jacobian: Callable[..., Any]
    sparse_hessian: Callable[..., Any]
    #: check a rule where it is used, told words for it, its function and a point; whether both modes could be compared
    check_rule_in_use: Callable[[str, Callable, tuple], bool]
    #: call a function in the body of a loop that is written down, where its residuals are computed again; or None
    recomputed: Callable[[Callable, list, str], Any]
    #: which entries of the Jacobian of a function can be other than zero, whatever its arguments
    sparsity: Callable[..., Any]


ABOVE = _Above()
