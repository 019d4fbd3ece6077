"""The examples of HIPS autograd, as they are and moved by ``dualad migrate``: results compared, gradients timed.

    git clone https://github.com/HIPS/autograd
    python -m benchmarks.autograd_examples autograd [--only gmm] [--calls 20] [--rounds 3]

Each example runs in a process of its own, without windows and with made-up digits in place of MNIST's, until it has
called gradients (of any kind, the outermost counts) so many times. Their results are compared call by call: an
optimizer that is given the same gradients asks for the next one at the same point. The time is the CPU time of these
calls without the first, each repeated some times, the least of some rounds taken by turns; "jit" is the same with
``da.jit`` around the gradients. Examples that take none are timed as a whole.
"""

import argparse
import contextlib
import io
import json
import os
import pickle
import shutil
import subprocess
import sys
import tempfile
import time
import types
from pathlib import Path

import numpy as np

__all__ = ["main"]

MAKERS = ("elementwise_grad", "grad", "hessian", "hessian_vector_product", "jacobian", "value_and_grad")
VARIANTS = ("autograd", "dualad", "jit")
NO_EXAMPLES = {"__init__.py", "data.py", "data_mnist.py"}


class Enough(BaseException):
    """Ends an example."""


class Recorder:
    """Times outermost calls of derivatives and keeps their results."""

    def __init__(self, limit, seconds, repeat, is_tensor, wrap):
        self.limit, self.seconds, self.repeat, self.is_tensor, self.wrap = limit, seconds, repeat, is_tensor, wrap
        self.inside, self.times, self.results = False, [], []

    def __call__(self, make):
        def maker(*args, **kwargs):
            function = self.wrap(make(*args, **kwargs))

            def called(*args, **kwargs):
                if self.inside or any(map(self.is_tensor, args)):
                    return function(*args, **kwargs)
                self.inside, times = True, []
                try:
                    for _ in range(self.repeat):
                        start = time.process_time()
                        out = function(*args, **kwargs)
                        times.append(time.process_time() - start)
                finally:
                    self.inside = False
                self.times.append(min(times))
                self.results.append(numbers(out))
                if len(self.times) >= self.limit or sum(self.times) > self.seconds:
                    raise Enough
                return out

            return called

        return maker


def numbers(tree):
    """All numbers of a tree, in the order of its keys."""
    if isinstance(tree, dict):
        tree = [tree[key] for key in sorted(tree)]
    if isinstance(tree, (list, tuple)):
        return np.concatenate([np.zeros(0), *map(numbers, tree)])
    flat = np.ravel(np.asarray(tree))
    return np.zeros(0) if flat.dtype == object else flat  # an object of the example's own


def work(variant, folder, example, limit, seconds, repeat):
    """Run an example in this process; return times, results and what it printed, or the error."""
    os.environ["MPLBACKEND"] = "Agg"
    import matplotlib.pyplot as plt

    plt.pause = plt.show = lambda *args, **kwargs: None
    os.system = lambda command: 0
    unseeded = np.random.RandomState
    np.random.RandomState = type(
        "RandomState", (unseeded,), {"__init__": lambda self, seed=0: unseeded.__init__(self, seed)}
    )
    digits = np.random.RandomState(0)
    images = [digits.randint(0, 256, (n, 28, 28)).astype(np.uint8) for n in (1000, 200)]
    labels = [digits.randint(0, 10, n).astype(np.uint8) for n in (1000, 200)]
    mnist = types.ModuleType("data_mnist")
    mnist.mnist = lambda: (images[0], labels[0], images[1], labels[1])
    sys.modules["data_mnist"] = mnist
    path = Path(folder) / example
    text = Path(folder).parent / "autograd" / example  # some examples learn their own text, which has changed
    sys.path[:0] = [folder, str(path.parent)]
    os.chdir(folder)
    if variant == "autograd":
        import autograd
        from autograd.tracer import isbox

        record = Recorder(limit, seconds, repeat, isbox, lambda f: f)
        homes = [autograd]
    else:
        import dualad
        import dualad.compat.autograd
        from dualad.core.tracer import tracer_in

        wrap = dualad.jit if variant == "jit" else lambda f: f
        record = Recorder(limit, seconds, repeat, lambda x: tracer_in(x) is not None, wrap)
        homes = [dualad, dualad.compat.autograd]
    for home in homes:
        for name in MAKERS:
            if hasattr(home, name):
                setattr(home, name, record(getattr(home, name)))
    np.random.seed(0)  # noqa: NPY002 - the examples draw from it
    out, error = io.StringIO(), ""
    start = time.process_time()
    try:
        with contextlib.redirect_stdout(out):
            exec(compile(path.read_text(), path, "exec"), {"__name__": "__main__", "__file__": str(text)})
    except Enough:
        pass
    except Exception as raised:
        error = f"{type(raised).__name__}: {str(raised).splitlines()[0] if str(raised) else ''}"
        if os.environ.get("SHOW_ERRORS"):
            raise
    return {
        "whole": time.process_time() - start, "times": record.times, "results": record.results, "error": error,
        "printed": out.getvalue(),
    }  # fmt: skip


def measure(variant, folder, example, limit, seconds, repeat):
    """Run an example in a fresh process."""
    environment = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
    with tempfile.NamedTemporaryFile(suffix=".pickle") as file:
        given = json.dumps([variant, str(folder), example, limit, seconds, repeat, file.name])
        command = [sys.executable, "-m", "benchmarks.autograd_examples", "--worker", given]
        try:
            failed = subprocess.run(
                command, env=environment, check=False, timeout=180, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            ).returncode
        except subprocess.TimeoutExpired:
            failed = 124
        if failed:
            return {
                "error": "3 minutes" if failed == 124 else f"exit status {failed}",
                "times": [],
                "results": [],
                "whole": 0.0,
                "printed": "",
            }
        return pickle.loads(Path(file.name).read_bytes())


def seconds_of(run):
    return sum(run["times"][1:]) or sum(run["times"]) or run["whole"]


def difference(run, other):
    """The largest difference of two runs' results, relative to the largest entry of each."""
    pairs = list(zip(run["results"], other["results"], strict=False))
    return max([np.max(np.abs(a - b), initial=0) / max(np.max(np.abs(a), initial=0), 1e-300) for a, b in pairs] or [0])


def row(name, folders, example, options):
    theirs = measure("autograd", folders["autograd"], example, options.calls, options.seconds, options.repeat)
    if theirs["error"]:
        return f"| {name} | autograd: {theirs['error']} | | | | |"
    calls = len(theirs["times"]) or options.calls
    best = {"autograd": seconds_of(theirs)}
    cells = {}
    worst = 0.0
    for i in range(options.rounds):
        for variant in VARIANTS[not i :]:
            if variant in cells:
                continue
            run = measure(variant, folders[variant], example, calls, 1e9, options.repeat)
            if run["error"] or len(run["results"]) != len(theirs["results"]):
                cells[variant] = run["error"] or f"{len(run['results'])} calls"
                continue
            worst = max(worst, difference(theirs, run))
            best[variant] = min(best.get(variant, np.inf), seconds_of(run))
    count = max(len(theirs["times"]) - 1, 1)
    shown = [cells.get(v) or f"{1000 * best[v] / count:.3g}" for v in VARIANTS]
    fastest = min([best[v] for v in VARIANTS[1:] if v in best], default=np.nan)
    ratio = best["autograd"] / fastest
    return f"| {name} | {len(theirs['times'])} | {' | '.join(shown)} | {ratio:.2g} | {worst:.0e} |"


def main(argv=None):
    parser = argparse.ArgumentParser(prog="python -m benchmarks.autograd_examples", description=__doc__)
    parser.add_argument("checkout", nargs="?", type=Path, help="a checkout of HIPS autograd")
    parser.add_argument("--only", action="append", help="this example only; may be repeated")
    parser.add_argument("--calls", type=int, default=20, help="how many gradients an example takes (%(default)s)")
    parser.add_argument(
        "--seconds", type=float, default=10.0, help="CPU time after which there are fewer (%(default)s)"
    )
    parser.add_argument("--rounds", type=int, default=3, help="of which the fastest counts (%(default)s)")
    parser.add_argument("--repeat", type=int, default=3, help="how often each gradient is computed (%(default)s)")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.worker:
        *given, file = json.loads(options.worker)
        Path(file).write_bytes(pickle.dumps(work(*given)))
        return 0
    if options.checkout is None or not (options.checkout / "examples").is_dir():
        parser.error("name a checkout of HIPS autograd")
    with tempfile.TemporaryDirectory() as place:
        folders = {v: str(Path(place) / v) for v in VARIANTS}
        for folder in folders.values():
            shutil.copytree(options.checkout / "examples", folder)
        for variant in VARIANTS[1:]:
            command = [sys.executable, "-m", "dualad", "migrate", "autograd", folders[variant], "--write"]
            subprocess.run(command, check=False, stderr=subprocess.DEVNULL)
        print("| example | gradients | autograd, ms | dualad, ms | under `jit`, ms | ratio | differs by |")
        print("|---|---|---|---|---|---|---|")
        for path in sorted((options.checkout / "examples").rglob("*.py")):
            if path.name not in NO_EXAMPLES and (not options.only or path.stem in options.only):
                example = str(path.relative_to(options.checkout / "examples"))
                print(row(path.stem, folders, example, options), flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
