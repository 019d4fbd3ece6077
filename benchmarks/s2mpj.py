"""Optimization problems that others have written in plain NumPy, differentiated as they are: S2MPJ's.

``python -m benchmarks.s2mpj CLONE [COUNT] [LARGEST]`` takes problems of a clone of the collection (Gratton and Toint,
*S2MPJ and CUTEst optimization problems for Matlab, Python and Julia*, 2024) with at most LARGEST unknowns, and holds
the gradient of each objective and the Jacobian of its constraints against the derivatives that the collection computes
by hand, and against central differences where these disagree. Nothing is rewritten, or lifted
by hand. Not for: times.
"""

import collections
import contextlib
import importlib
import io
import random
import signal
import sys
import warnings
from pathlib import Path

import numpy as np

import dualad as da

__all__ = ["checked", "main"]

#: seconds for a problem, its own derivatives and ours; twice the second
_SECONDS = 10.0


class _Late(BaseException):
    """The time for a problem is over."""


@contextlib.contextmanager
def _limited():
    def ring(signum, frame):
        raise _Late

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, _SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _dense(x):
    return np.asarray(x.toarray() if hasattr(x, "toarray") else x, float)


def _is_close(found, expected, tolerance):
    found, expected = np.ravel(found), np.ravel(expected)
    finite = np.isfinite(expected)
    if found.shape != expected.shape or not np.array_equal(np.isfinite(found), finite):
        return False
    scale = 1 + np.max(np.abs(expected[finite]), initial=0)
    return bool(np.all(np.abs(found - expected)[finite] <= tolerance * scale))


def _differences(f, x):
    steps = 1e-6 * np.eye(x.size)
    return np.stack([(_dense(f(x + h)) - _dense(f(x - h))).ravel() / 2e-6 for h in steps], -1)


def checked(f, theirs, ours, x):
    """The verdict on one function: ``right``, ``wrong``, ``late``, ``refused: …``, or why the collection has none.

    Where its own derivative is not that of differences and ours is, ours is right.
    """
    try:
        with _limited():
            value, expected = _dense(f(x.copy())), _dense(theirs(x.copy())[1])
    except (_Late, Exception):
        return "no reference"
    try:
        with _limited():
            got, found = ours(f)(x.copy())
        if not _is_close(_dense(got), value, 1e-10):
            return "wrong value"
        if _is_close(_dense(found), expected, 1e-7) or _is_close(_dense(found), _differences(f, x), 1e-4):
            return "right"
        return "wrong"
    except _Late:
        return "late"
    except Exception as error:
        return f"refused: {type(error).__name__}: {str(error).splitlines()[0]}"


def main(clone, count="150", largest="100"):
    """Print the verdicts on some problems of a clone, chosen at random, and how often each was given."""
    source = Path(clone)
    sys.path[:0] = [str(source), str(source / "python_problems")]
    names = sorted(path.stem for path in (source / "python_problems").glob("*.py"))
    random.Random(0).shuffle(names)
    verdicts = collections.Counter()
    for name in names:
        if verdicts["problems"] >= int(count):
            break
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            try:
                with _limited():
                    problem = getattr(importlib.import_module(name), name)()
                x = np.array(problem.x0, float).ravel()
            except (_Late, Exception):  # it wants arguments, or a file
                continue
            if x.size > int(largest):
                continue
            verdicts["problems"] += 1
            found = []
            if len(getattr(problem, "objgrps", ())) or hasattr(problem, "H"):
                found.append(checked(problem.fx, problem.fgx, da.value_and_grad, x))
            if len(getattr(problem, "congrps", ())):
                found.append(checked(problem.cx, problem.cJx, da.value_and_jacrev, x))
        for verdict in found:
            verdicts[verdict.partition(":")[0]] += 1
            if verdict != "right":
                print(name, verdict, flush=True)
    print(dict(verdicts))


if __name__ == "__main__":
    main(*sys.argv[1:])
