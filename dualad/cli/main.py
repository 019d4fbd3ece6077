"""The ``dualad`` command: its arguments, its exit status, and errors in words instead of tracebacks.

Exit status: 0 all right, 1 a derivative is wrong (or a function can't be differentiated), 2 bad usage, 3 nothing to
check; 130 interrupted, 141 the reader of the output has gone.

Not for what the commands do (``check.py``, ``jacobian.py``, ``trace.py``, ``ops.py``).
"""

from __future__ import annotations

import argparse
import contextlib
import difflib
import os
import re
import sys
from collections.abc import Sequence
from typing import NoReturn

from dualad.errors import ArgumentError, LoadingError, UsageError
from dualad.testing import ORACLES, QUANTITIES
from dualad.version import __version__

from . import check, explain, help, jacobian, ops, trace

__all__ = ["main"]

_TARGET = "path/to/file.py:function, package.module:function"
_TARGETS = (
    f"{_TARGET}; or a file, a module, a folder, or a pattern of files ('src/**/model_*.py'), for all functions with "
    "declared points"
)
_AT = "a point: JSON list of all arguments, or a .json, .npy or .npz file; may be repeated"
_CHECK = """\
points:
  A file declares them in a dictionary:
      __dualad__ = {"function": [(np.array([1.0, 2.0]), 3.0)]}     a list of points, each a tuple of arguments
      __dualad__ = {"function": lambda: [...]}                      or a function that makes the list
      __dualad__ = {"function": {"points": [...], "skip": {"vmap-value": "branches on the value"}}}
  or the command line gives them: --at '[[1.0, 2.0], 3.0]'   --at x.npy   --at arguments.npz

examples:
  dualad check model.py:energy --at '[[1.0, 2.0], 3.0]'            one function at one point
  dualad check src 'lib/**/model_*.py' --workers 4                  every function with declared points
  dualad check src --oracle differences --oracle complex-step --fail-fast
  dualad check src --junit report.xml --html report.html --github   in GitHub Actions
  dualad check src --list                                           what would be checked

exit status:
  0 every derivative agrees with every oracle, 1 one does not (or raised, or could not be judged), 2 bad usage,
  3 a target has nothing to check in it; 130 interrupted
"""
_JACOBIAN = """\
examples:
  dualad jacobian model.py:rates                                    at the points that the file declares
  dualad jacobian model.py:rates --at '[[1.0, 2.0]]' --spy          only the picture of its entries
  dualad jacobian model.py:rates --mode rev --png jacobian.png
  dualad jacobian model.py:rates --sparse                           its pattern, its colouring and its entries
"""
_TRACE = """\
examples:
  dualad trace model.py:energy --at '[[1.0, 2.0], 3.0]'             the tangent's program, as linearize records it
  dualad trace model.py:energy --wrt x --transpose                  reverse mode, in one argument
  dualad trace model.py:energy --nonlinear                          the function's own program
"""
_OPS = """\
examples:
  dualad ops                                                        the whole table
  dualad ops sin matmul                                             these rows
  dualad ops --missing                                              what is refused, and why
"""
_ALL = """\
examples:
  dualad check model.py:energy --at '[[1.0, 2.0], 3.0]'
  dualad check src --junit report.xml
  dualad jacobian model.py:rates --at '[[1.0, 2.0]]' --spy
  dualad COMMAND --help
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
        The exit status.

    Examples
    --------
    >>> from dualad.cli.main import main
    >>> main(["ops", "no_such_operator"])
    2
    """
    for stream in (sys.stdout, sys.stderr):
        # A terminal that lacks a character, or a file's name that is no text, must not end the command.
        with contextlib.suppress(AttributeError, OSError):
            stream.reconfigure(errors="replace")  # type: ignore[union-attr]
    try:
        try:
            return _run(_parser().parse_args(argv))
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        # The reader (head, less) has gone; there is nobody left to tell.
        with contextlib.suppress(OSError, AttributeError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130


def _run(options: argparse.Namespace) -> int:
    try:
        match options.command:
            case "check":
                return check.run(options, __version__)
            case "jacobian":
                return jacobian.run(options)
            case "trace":
                return trace.run(options)
            case "explain":
                return explain.run(options)
            case "help":
                return help.run(options)
            case _:
                return ops.run(options)
    except (UsageError, LoadingError, ArgumentError) as error:
        print(f"dualad {options.command}: {error}", file=sys.stderr)
        return error.exit_status if isinstance(error, UsageError) else 2


class _Parser(argparse.ArgumentParser):
    """A parser whose errors say what was probably meant."""

    def error(self, message: str) -> NoReturn:
        chosen = re.search(r"invalid choice: '(.*?)' \(choose from (.*)\)", message)
        if chosen is not None:
            close = difflib.get_close_matches(chosen[1], re.findall(r"[\w-]+", chosen[2]), 1)
            message += f"; did you mean {close[0]!r}?" if close else ""
        elif self.prog.endswith("check") and "TARGET" in message:
            message += ": write path/to/file.py:function, a file, or a folder"
        super().error(f"{message}\n{self.prog} --help  shows examples")


def _laid_out(commands: argparse._SubParsersAction, name: str, summary: str, description: str, epilog: str) -> _Parser:
    return commands.add_parser(
        name, help=summary, description=description, epilog=epilog, formatter_class=argparse.RawDescriptionHelpFormatter
    )


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="dualad",
        description="Derivatives of plain NumPy code, checked.",
        epilog=_ALL,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"dualad {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    _add_check(commands)

    two = _laid_out(
        commands,
        "jacobian",
        "print a Jacobian and its picture",
        "Print the Jacobian, flattened to outputs x inputs, and the pattern of its entries.",
        _JACOBIAN,
    )
    two.add_argument("target", metavar="TARGET", help=_TARGET)
    two.add_argument("--at", action="append", default=[], metavar="POINT", help=_AT)
    two.add_argument("--mode", choices=("auto", "fwd", "rev"), default="auto", help="forward or reverse mode")
    two.add_argument("--sparse", action="store_true", help="find the pattern and compute its entries only; needs SciPy")
    two.add_argument("--spy", action="store_true", help="only the picture, not the numbers")
    two.add_argument("--style", choices=("auto", "braille", "block", "ascii"), default="auto", help="of the picture")
    two.add_argument("--png", metavar="FILE", help="also draw it with matplotlib")

    three = _laid_out(
        commands,
        "trace",
        "print the linear program of a derivative",
        "Print the linear program that linearize records: the derivative at a point, as it is computed.",
        _TRACE,
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

    about = "Print the table of operators: which rules each has, and where it is declared."
    four = _laid_out(commands, "ops", "print the table of operators and their rules", about, _OPS)
    four.add_argument("names", nargs="*", metavar="NAME", help="only these operators")
    four.add_argument("--missing", action="store_true", help="what is refused or loops over lanes, with the reason")
    explain.add_to(commands, _TARGETS, _AT)
    help.add_to(commands)
    return parser


def _add_check(commands: argparse._SubParsersAction) -> None:
    one = _laid_out(
        commands,
        "check",
        "compare all derivatives of functions with independent oracles",
        "Compute JVP, VJP, Jacobians, Hessian-vector product and batched versions of each function, and\ncompare them "
        "with JAX in float64, central differences, the complex step, the dot-product test and a loop.",
        _CHECK,
    )
    one.add_argument("targets", nargs="+", metavar="TARGET", help=_TARGETS)
    what = one.add_argument_group("what is checked")
    what.add_argument("--at", action="append", default=[], metavar="POINT", help=_AT)
    what.add_argument(
        "--samples", type=_count, default=0, metavar="N", help="and at N points near each, about one percent away"
    )
    what.add_argument(
        "--order", type=int, choices=(1, 2), default=2, help="highest order of derivatives (default %(default)s)"
    )
    what.add_argument(
        "--skip", action="append", default=[], choices=QUANTITIES, help="leave a quantity out; repeatable"
    )
    what.add_argument(
        "--jacobian-limit",
        type=_count,
        default=250_000,
        metavar="ENTRIES",
        help="skip larger Jacobians; products are always checked (default %(default)s)",
    )
    what.add_argument("--list", action="store_true", help="only list the functions and points")
    how = one.add_argument_group("how")
    how.add_argument("--oracle", action="append", default=[], choices=ORACLES, help="only this oracle; repeatable")
    how.add_argument("--rtol", type=_tolerance, default=1e-7, help="allowed relative error (default %(default)s)")
    how.add_argument("--atol", type=_tolerance, default=1e-12, help="allowed absolute error (default %(default)s)")
    how.add_argument(
        "--seed", type=_count, default=0, help="for tangents, cotangents and samples (default %(default)s)"
    )
    how.add_argument(
        "--workers", type=_workers, default=1, metavar="N", help="processes, or auto for one per core (default 1)"
    )
    how.add_argument("--fail-fast", action="store_true", help="begin nothing more after the first failure")
    out = one.add_argument_group("reports")
    out.add_argument("--json", metavar="FILE", help="write everything as JSON; - for standard output")
    out.add_argument("--junit", metavar="FILE", help="write JUnit XML, for CI")
    out.add_argument("--markdown", metavar="FILE", help="write a summary as Markdown")
    out.add_argument("--html", metavar="FILE", help="write a self-contained page with plots")
    out.add_argument(
        "--github",
        action="store_true",
        help="append the Markdown summary to $GITHUB_STEP_SUMMARY, and annotate the functions that failed",
    )
    out.add_argument("-q", "--quiet", action="store_true", help="print only failures and the summary, no progress bar")


def _tolerance(text: str) -> float:
    value = float(text)
    if not 0 <= value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} is not a tolerance: write a small number, 0 or more")
    return value


def _count(text: str) -> int:
    value = int(text)
    if value < 0:
        raise argparse.ArgumentTypeError(f"{text} is negative")
    return value


def _workers(text: str) -> int:
    if text == "auto":
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of processes: write 1 or more, or auto")
    return int(text)
