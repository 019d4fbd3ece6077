"""The one family of errors: what you did, why it can't work, what to write instead.

Every class has a stable code (``DAD003``) that is also its anchor in the documentation, and inherits from the Python
class a caller would expect to catch (``TypeError``, ``ValueError``, ``NotImplementedError``, ``RuntimeError``).

Not for: deciding *when* something is an error; the rooms that notice it raise it from here.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any

import numpy as np

__all__ = [
    "ArgumentError", "ArgumentTypeError", "BranchError", "CapturedTensorError", "CheckError", "CompilerFaultWarning",
    "ConvergenceError", "ConversionError", "DeclarationError", "DifferentValueError", "DtypeError", "DualadError",
    "EscapedTensorError", "ForeignArrayError", "GradcheckError", "InPlaceError", "KinkError", "LoadingError",
    "NonFiniteError", "NotLinearError", "NotRepeatableError", "OutputError", "PlainBufferError", "ProgramError",
    "RefusalSwallowedError", "RuleMissingError", "ShapeError", "SingularMatrixError", "SparsityError", "TravelError",
    "TreeError", "UnsupportedError", "UsageError", "WorkerLostError", "catalogue",
]  # fmt: skip


#: the refusals made while a function of the user's runs (``boundary/swallowed.py``); per thread and asynchronous task
noted: ContextVar[list | None] = ContextVar("dualad_noted", default=None)


class DualadError(Exception):
    """Base of every error dualad raises on purpose.

    Parameters
    ----------
    what : str
        What the caller did, with names, shapes and dtypes.
    why : str
        Why it can't work.
    instead : str
        What to write instead.
    """

    code = "DAD000"
    title = "any error of dualad"
    #: whether it refuses something on a tensor, so that a function which catches it goes on another way than without
    refuses = False
    #: whether it says already where it happened, so that no function of SciPy's above is to blame
    told = False

    def __init__(self, what: str, why: str = "", instead: str = "") -> None:
        if self.refuses and (made := noted.get()) is not None:
            made.append(self)
        self.what, self.why, self.instead = what, why, instead
        lines = [f"[{self.code}] {what}"]
        if why:
            lines.append(f"  Why: {why}")
        if instead:
            lines.append(f"  Instead: {instead}")
        lines.append(f"  Help: python -m dualad help {self.code}")
        super().__init__("\n".join(lines))

    def __init_subclass__(cls, code: str = "", title: str = "", refuses: bool = False) -> None:
        super().__init_subclass__()
        if code:  # without one, a class has those of the class that it is derived from
            cls.code, cls.title, cls.refuses = code, title, refuses

    def __reduce__(self):
        return type(self), (self.what, self.why, self.instead), {"told": self.told}


class EscapedTensorError(
    DualadError, RuntimeError, code="DAD001", title="a tensor escaped its transform", refuses=True
):
    """A tensor was used after the transform that made it had returned."""


class TreeError(DualadError, TypeError, code="DAD002", title="trees of different structure"):
    """Two trees that must have the same structure have not."""


class ShapeError(DualadError, ValueError, code="DAD003", title="shapes that do not agree"):
    """Two shapes that must agree do not."""


class DtypeError(DualadError, TypeError, code="DAD004", title="a dtype that can't carry the derivative"):
    """A dtype can't represent the requested result."""


class ArgumentError(DualadError, ValueError, code="DAD005", title="a transform's argument has an impossible value"):
    """An argument of a transform has a value that makes no sense."""


class ArgumentTypeError(DualadError, TypeError, code="DAD006", title="a transform's argument has the wrong type"):
    """An argument of a transform has the wrong type."""


class OutputError(DualadError, TypeError, code="DAD007", title="a function's output can't be used by the transform"):
    """A function returned something that the transform can't differentiate or batch."""


class ConversionError(
    DualadError, TypeError, code="DAD008", title="a conversion that would drop the derivative", refuses=True
):
    """A tensor would lose its tangent, its batch axis or its name in a conversion to a plain value."""


class UnsupportedError(
    DualadError, NotImplementedError, code="DAD009", title="a function that is not supported on tensors", refuses=True
):
    """A NumPy or SciPy function has no meaning on tensors, or is not supported yet."""


class RuleMissingError(
    DualadError, NotImplementedError, code="DAD010", title="an operator without this derivative rule", refuses=True
):
    """An operator has no derivative (or no transpose) in the argument asked for."""


class NotLinearError(DualadError, TypeError, code="DAD011", title="a function that must be linear is not"):
    """A function that must be linear is not."""


class BranchError(
    DualadError, TypeError, code="DAD012", title="a Python branch on a value that is not one value", refuses=True
):
    """A Python branch was asked to choose one way for values that are several or unknown."""


class PlainBufferError(
    DualadError, TypeError, code="DAD013", title="a tensor written into a plain array", refuses=True
):
    """A tensor was written into a plain array, which can't hold it."""


class InPlaceError(
    DualadError, TypeError, code="DAD014", title="an in-place write that can't be carried out", refuses=True
):
    """An in-place write on a tensor can't be carried out faithfully."""


class DeclarationError(DualadError, TypeError, code="DAD015", title="an operator declared wrongly"):
    """An operator's declaration lacks what it must have; raised at import."""


class ProgramError(DualadError, ValueError, code="DAD016", title="a malformed program"):
    """A program, or a report of a fault that holds one, is malformed."""


class CapturedTensorError(
    DualadError, TypeError, code="DAD017", title="a traced value that came in through a closure", refuses=True
):
    """A function with a rule of its own read a traced value that is not one of its arguments."""


class NotRepeatableError(DualadError, RuntimeError, code="DAD019", title="a function that can't be repeated"):
    """A function that is run or traced again (``checkpoint``, ``jit``) did something else than the first time."""


class LoadingError(DualadError, ImportError, code="DAD020", title="a module that can't be loaded"):
    """A user's module can't be loaded."""


class UsageError(DualadError, ValueError, code="DAD021", title="a command that can't be carried out"):
    """The command line was asked for something that can't be found or done.

    Attributes
    ----------
    exit_status : int
        What the command ends with: 2, or 3 where a target is there but has nothing to check in it.
    """

    exit_status = 2


class CheckError(DualadError, AssertionError, code="DAD022", title="a derivative that disagrees with an oracle"):
    """A derivative disagrees with an oracle, or no oracle could judge it."""


class KinkError(DualadError, ArithmeticError, code="DAD024", title="a derivative at a kink"):
    """Under ``kinks("raise")``: a derivative was taken where the function has a corner."""


class SingularMatrixError(DualadError, np.linalg.LinAlgError, code="DAD041", title="a derivative at a singular matrix"):
    """A derivative was taken at a singular matrix, where the function has none."""


class NonFiniteError(
    DualadError, FloatingPointError, code="DAD018", title="a value, a tangent or a cotangent became non-finite"
):
    """Under ``debug(nan=True)``: a value, a tangent or a cotangent became infinite or NaN.

    Attributes
    ----------
    origin : dualad.diagnose.nonfinite.Origin or None
        Where it did: operation, phase, line, operands, index, level.
    """

    origin: Any = None

    def __reduce__(self):
        return type(self), (self.what, self.why, self.instead), {"told": self.told, "origin": self.origin}


class ConvergenceError(DualadError, ArithmeticError, code="DAD023", title="an iteration that did not converge"):
    """An iteration did not reach its tolerance, so there is no point at which a derivative could be taken."""


class GradcheckError(
    DualadError, AssertionError, RuntimeError, code="DAD025", title="a derivative that a gradient check found wrong"
):
    """A gradient check found a derivative, or a rule, that contradicts the function or itself.

    Attributes
    ----------
    check : str
        Which check failed: ``"forward"``, ``"reverse"``, ``"batched reverse"``, ``"determinism"``, …
    output, input : int or None
        Positions of the arrays among the function's outputs and inputs.
    part : str
        ``"real"`` or ``"imaginary"`` where the arrays concerned are complex, otherwise empty.
    analytical, numerical : ndarray or None
        The two Jacobians (in fast mode, their products with random vectors).
    """

    check = ""
    output: Any = None
    input: Any = None
    part = ""
    analytical: Any = None
    numerical: Any = None


class ForeignArrayError(
    DualadError, TypeError, code="DAD031", title="an array with arithmetic of its own met a tensor", refuses=True
):
    """An array of another library, with arithmetic of its own, met a tensor."""


class RefusalSwallowedError(DualadError, RuntimeError, code="DAD032", title="a refusal that the function caught"):
    """Under ``debug``: a function caught a refusal and returned all the same."""


class DifferentValueError(
    DualadError, AssertionError, code="DAD033", title="another value under a transform than without"
):
    """The value that a transform computed is not what the function returns on plain arrays."""


class SparsityError(DualadError, ValueError, code="DAD036", title="a sparsity pattern that does not hold"):
    """A sparsity pattern misses entries, does not fit, or is too dense to be held."""


class TravelError(DualadError, TypeError, code="DAD061", title="a function that can't be sent to a worker"):
    """A function can't be sent to the workers of an executor."""


class WorkerLostError(DualadError, RuntimeError, code="DAD062", title="a worker died"):
    """A worker of an executor died, and its work is lost."""


class CompilerFaultWarning(
    DualadError, UserWarning, code="DAD063", title="compiled code that differs from the plain program"
):
    """A warning: compiled code was found wrong at its first call; the function runs without it."""


class PerformanceNote(UserWarning):
    """Something works, but a faster spelling exists."""


def catalogue() -> list[type[DualadError]]:
    """Return every error class, in the order of their codes.

    Returns
    -------
    list of type
        The classes of this module, :class:`DualadError` first.

    Examples
    --------
    >>> from dualad.errors import catalogue
    >>> catalogue()[1].code
    'DAD001'
    """
    return sorted([DualadError, *DualadError.__subclasses__()], key=lambda cls: cls.code)
