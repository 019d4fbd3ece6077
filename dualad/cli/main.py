"""The ``dualad`` command: its arguments, its exit status, and errors in words instead of tracebacks.

Exit status: 0 all right, 1 a derivative is wrong (or a function can't be differentiated), 2 bad usage, 3 nothing to
check; 130 interrupted, 141 the reader of the output has gone.

Not for what the commands do (``check.py``, ``jacobian.py``, ``trace.py``, ``ops.py``).
"""

from __future__ import annotations

import argparse
import contextlib
import difflib
import importlib
import os
import re
import sys
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from dualad.base.version import __version__
from dualad.diagnose.explained import STATUSES
from dualad.errors import ArgumentError, LoadingError, UsageError
from dualad.testing import ORACLES, QUANTITIES

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
  dualad check src 'lib/**/model_*.py'                              every function with declared points
  dualad check src --oracle differences --oracle complex-step --fail-fast
  dualad check src --html report.html                               a page with plots
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
_EXPLAIN = """\
examples:
  dualad explain model.py:energy --at '[[1.0, 2.0], 3.0]'          line by line, before any derivative is taken
  dualad explain model.py:energy --fail-on refused --fail-on loop    in CI: nothing refused, nothing once per lane
  dualad explain model.py:energy --json -                           as data

exit status:
  0 nothing is refused, 1 something is (or the function failed, has another value when it is watched, or does what
  --fail-on names), 2 bad usage
"""
_MIGRATE = """\
examples:
  dualad migrate autograd model.py                                  what would change, as a diff
  dualad migrate jax src --write                                    change all files of a folder

exit status:
  0 nothing is left to decide, 1 something is: a comment stands above it, 2 bad usage
"""
_BUG = """\
exit status:
  0 the fault does not occur here, 1 it does, 2 bad usage
"""
_ALL = """\
examples:
  dualad check model.py:energy --at '[[1.0, 2.0], 3.0]'
  dualad check src --html report.html
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
            options = _parser().parse_args(argv)
            # A command is imported when it is called for: they need very different parts of the library.
            return importlib.import_module(f".{options.command}", __package__).run(options)
        except (UsageError, LoadingError, ArgumentError) as error:
            print(f"dualad {options.command}: {error}", file=sys.stderr)
            return error.exit_status if isinstance(error, UsageError) else 2
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


#: of an option that may be given several times
_REPEATED: Any = {"action": "append", "default": []}


def _parser() -> argparse.ArgumentParser:
    raw: Any = {"formatter_class": argparse.RawDescriptionHelpFormatter}
    parser = _Parser(prog="dualad", description="Derivatives of plain NumPy code, checked.", epilog=_ALL, **raw)
    parser.add_argument("--version", action="version", version=f"dualad {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def command(name: str, summary: str, description: str, epilog: str) -> argparse.ArgumentParser:
        return commands.add_parser(name, help=summary, description=description, epilog=epilog, **raw)

    def at_points(made: argparse.ArgumentParser, target: str = _TARGET) -> Callable:
        made.add_argument("target", metavar="TARGET", help=target)
        made.add_argument("--at", **_REPEATED, metavar="POINT", help=_AT)
        return made.add_argument

    _add_check_options(
        command(
            "check",
            "compare all derivatives of functions with independent oracles",
            "Compute JVP, VJP, Jacobians, Hessian-vector product and batched versions of each function, and\ncompare "
            "them with JAX in float64, central differences, the complex step, the dot-product test and a loop.",
            _CHECK,
        )
    )
    about = "Print the Jacobian, flattened to outputs x inputs, and the pattern of its entries."
    add = at_points(command("jacobian", "print a Jacobian and its picture", about, _JACOBIAN))
    add("--mode", choices=("auto", "fwd", "rev"), default="auto", help="forward or reverse mode")
    add("--sparse", action="store_true", help="find the pattern and compute its entries only; needs SciPy")
    add("--spy", action="store_true", help="only the picture, not the numbers")
    add("--style", choices=("auto", "braille", "block", "ascii"), default="auto", help="of the picture")
    add("--png", metavar="FILE", help="also draw it with matplotlib")

    about = "Print the linear program that linearize records: the derivative at a point, as it is computed."
    made = command("trace", "print the linear program of a derivative", about, _TRACE)
    add = at_points(made)
    add("--wrt", metavar="ARGS", help="only these arguments, by position or name: 0,2 or x,y")
    add("--dot", metavar="FILE", help="also write the graph in Graphviz's language")
    add("--svg", metavar="FILE", help="also draw the graph")
    add("--html", metavar="FILE", help="also write a page with the pictures and texts of all programs")
    which = made.add_mutually_exclusive_group()
    which.add_argument("--transpose", action="store_true", help="the transposed program: reverse mode")
    which.add_argument("--nonlinear", action="store_true", help="the program of the function itself")

    about = "Print the table of operators: which rules each has, and where it is declared."
    add = command("ops", "print the table of operators and their rules", about, _OPS).add_argument
    add("names", nargs="*", metavar="NAME", help="only these operators")
    add("--missing", action="store_true", help="what is refused or loops over lanes, with the reason")

    about = (
        "Run a function once and list, line by line, which operations have rules, loop over lanes, drop\n"
        "the tangent, are refused (and what to write instead), are opaque, or branch on traced values. No derivative "
        "is taken."
    )
    made = command("explain", "what each line will meet under a derivative or vmap", about, _EXPLAIN)
    add = at_points(made, _TARGETS)
    failing = [s for s in STATUSES if s not in ("rules", "custom", "constant")]
    says = "exit with 1 if there is any of these; may be repeated (default: refused)"
    add("--fail-on", **_REPEATED, choices=failing, help=says)
    add("--json", metavar="FILE", help="write everything as JSON; - for standard output, alone")

    about = (
        "Print what a report of a fault in compiled code holds (the warning DAD063 names the file), run the program\n"
        "compiled and by NumPy, and say whether the fault occurs here. Nothing that the file brings along is executed."
    )
    add = command("bug", "replay a fault of the compiler", about, _BUG).add_argument
    add("file", metavar="FILE", help="the report")
    add("--full", action="store_true", help="print all of a long program")

    about = (
        "Rewrite imports and names of autograd or JAX: what would change is printed as a diff, unless it is written."
    )
    add = command("migrate", "rewrite programs that use autograd or JAX", about, _MIGRATE).add_argument
    add("library", choices=("autograd", "jax"), help="what the programs are written for")
    add("files", nargs="+", metavar="FILE", help="programs, or folders of them")
    add("--write", action="store_true", help="change the files")

    about = "Print what an error means, an example that raises it, and what to write instead."
    says = "as the message begins with: DAD012; all by default"
    command("help", "explain the code of an error", about, "").add_argument(
        "code", nargs="?", metavar="CODE", help=says
    )
    return parser


def _add_check_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("targets", nargs="+", metavar="TARGET", help=_TARGETS)
    add = parser.add_argument_group("what is checked").add_argument
    add("--at", **_REPEATED, metavar="POINT", help=_AT)
    add("--samples", type=_count, default=0, metavar="N", help="and at N points near each, about one percent away")
    add("--order", type=int, default=2, help="highest order of derivatives (default %(default)s)")
    add("--skip", **_REPEATED, choices=QUANTITIES, help="leave a quantity out; repeatable")
    says = "skip larger Jacobians; products are always checked (default %(default)s)"
    add("--jacobian-limit", type=_count, default=250_000, metavar="ENTRIES", help=says)
    add("--list", action="store_true", help="only list the functions and points")
    add = parser.add_argument_group("how").add_argument
    add("--oracle", **_REPEATED, choices=ORACLES, help="only this oracle; repeatable")
    add("--rtol", type=_tolerance, default=1e-7, help="allowed relative error (default %(default)s)")
    add("--atol", type=_tolerance, default=1e-12, help="allowed absolute error (default %(default)s)")
    add("--seed", type=_count, default=0, help="for tangents, cotangents and samples (default %(default)s)")
    add("--fail-fast", action="store_true", help="begin nothing more after the first failure")
    add = parser.add_argument_group("reports").add_argument
    add("--json", metavar="FILE", help="write everything as JSON; - for standard output")
    add("--html", metavar="FILE", help="write a self-contained page with plots")
    add("-q", "--quiet", action="store_true", help="print only failures and the summary, no progress bar")


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
