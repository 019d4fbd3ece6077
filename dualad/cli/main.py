"""The ``dualad`` command: its arguments, its exit status, and errors in words instead of tracebacks.

Exit status: 0 all right, 1 a derivative is wrong (or a function can't be differentiated), 2 bad usage.

Not for what the commands do (``check.py``, ``jacobian.py``, ``trace.py``, ``ops.py``).
"""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import sys
from collections.abc import Sequence

from dualad.errors import ArgumentError, LoadingError, UsageError
from dualad.testing import ORACLES, QUANTITIES

from . import check, jacobian, ops, trace

__all__ = ["main"]

_TARGET = (
    "path/to/file.py:function, package.module:function, a file, a module, or a folder (functions with declared points)"
)
_AT = "a point: JSON list of all arguments, or a .json, .npy or .npz file; may be repeated"
_POINTS = """\
points:
  A file declares them in a dictionary:
      __dualad__ = {"function": [(np.array([1.0, 2.0]), 3.0)]}     a list of points, each a tuple of arguments
      __dualad__ = {"function": lambda: [...]}                      or a function that makes the list
      __dualad__ = {"function": {"points": [...], "skip": {"vmap-value": "branches on the value"}}}
  or the command line gives them: --at '[[1.0, 2.0], 3.0]'   --at x.npy   --at arguments.npz

exit status:
  0 every derivative agrees with every oracle, 1 one does not (or raised, or could not be judged), 2 bad usage
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line.

    Parameters
    ----------
    argv : sequence of str, optional
        The arguments; those of the process by default.

    Returns
    -------
    int
        The exit status: 0, 1 or 2.

    Examples
    --------
    >>> from dualad.cli.main import main
    >>> main(["ops", "no_such_operator"])
    2
    """
    options = _parser().parse_args(argv)
    try:
        match options.command:
            case "check":
                return check.run(options, _version())
            case "jacobian":
                return jacobian.run(options)
            case "trace":
                return trace.run(options)
            case _:
                return ops.run(options)
    except (UsageError, LoadingError, ArgumentError) as error:
        print(f"dualad {options.command}: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:
        # The reader (head, less) has gone; there is nobody left to tell.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="dualad", description="Derivatives of plain NumPy code, checked.")
    parser.add_argument("--version", action="version", version=f"dualad {_version()}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    one = commands.add_parser(
        "check",
        help="compare all derivatives of functions with independent oracles",
        description="Compute JVP, VJP, Jacobians, Hessian-vector product and batched versions of each function, and "
        "compare them with JAX in float64, central differences, the complex step, the dot-product test and a loop.",
        epilog=_POINTS,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    one.add_argument("targets", nargs="+", metavar="TARGET", help=_TARGET)
    one.add_argument("--at", action="append", default=[], metavar="POINT", help=_AT)
    one.add_argument("--oracle", action="append", default=[], choices=ORACLES, help="only this oracle; may be repeated")
    one.add_argument("--skip", action="append", default=[], choices=QUANTITIES, help="leave a quantity out")
    one.add_argument("--rtol", type=_tolerance, default=1e-7, help="allowed relative error (default %(default)s)")
    one.add_argument("--atol", type=_tolerance, default=1e-12, help="allowed absolute error (default %(default)s)")
    one.add_argument("--seed", type=_seed, default=0, help="for the random tangents (default %(default)s)")
    one.add_argument(
        "--jacobian-limit",
        type=_seed,
        default=250_000,
        metavar="ENTRIES",
        help="skip larger Jacobians; products are always checked (default %(default)s)",
    )
    one.add_argument("--json", metavar="FILE", help="write everything as JSON; - for standard output")
    one.add_argument("--junit", metavar="FILE", help="write JUnit XML, for CI")
    one.add_argument("--html", metavar="FILE", help="write a self-contained page with plots")
    one.add_argument("-q", "--quiet", action="store_true", help="print only failures and the summary")

    two = commands.add_parser(
        "jacobian",
        help="print a Jacobian and its picture",
        description="Print the Jacobian, flattened to outputs x inputs, and the pattern of its entries.",
    )
    two.add_argument("target", metavar="TARGET", help=_TARGET)
    two.add_argument("--at", action="append", default=[], metavar="POINT", help=_AT)
    two.add_argument("--mode", choices=("auto", "fwd", "rev"), default="auto", help="forward or reverse mode")
    two.add_argument("--spy", action="store_true", help="only the picture, not the numbers")
    two.add_argument("--style", choices=("auto", "braille", "block", "ascii"), default="auto", help="of the picture")
    two.add_argument("--png", metavar="FILE", help="also draw it with matplotlib")

    three = commands.add_parser(
        "trace",
        help="print the linear program of a derivative",
        description="Print the linear program that linearize records: the derivative at a point, as it is computed.",
    )
    three.add_argument("target", metavar="TARGET", help=_TARGET)
    three.add_argument("--at", action="append", default=[], metavar="POINT", help=_AT)
    three.add_argument("--wrt", metavar="ARGS", help="only these arguments, by position or name: 0,2 or x,y")
    three.add_argument("--dot", metavar="FILE", help="also write the graph in Graphviz's language")
    three.add_argument("--svg", metavar="FILE", help="also draw the graph")
    three.add_argument("--html", metavar="FILE", help="also write a page with the pictures and texts of all programs")
    which = three.add_mutually_exclusive_group()
    which.add_argument("--transpose", action="store_true", help="the transposed program: reverse mode")
    which.add_argument("--nonlinear", action="store_true", help="the program of the function itself")

    four = commands.add_parser("ops", help="print the table of operators and their rules")
    four.add_argument("names", nargs="*", metavar="NAME", help="only these operators")
    four.add_argument("--missing", action="store_true", help="what is refused or loops over lanes, with the reason")
    return parser


def _version() -> str:
    try:
        return importlib.metadata.version("dualad")
    except importlib.metadata.PackageNotFoundError:
        return "(run from its source tree, not installed)"


def _tolerance(text: str) -> float:
    value = float(text)
    if not 0 <= value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} is not a tolerance: write a small number, 0 or more")
    return value


def _seed(text: str) -> int:
    value = int(text)
    if value < 0:
        raise argparse.ArgumentTypeError(f"{text} is negative")
    return value
