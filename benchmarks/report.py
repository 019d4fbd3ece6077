"""The tables: each row in the terminal as soon as it is measured, and all as Markdown for `benchmarks/README.md`."""

import importlib.metadata
import os
import platform

__all__ = ["load", "markdown", "terminal"]

COLUMNS = (
    "dualad jit",
    "NumPy primal",
    "hand-written",
    "autograd",
    "JAX eager",
    "JAX jit",
    "torch.func",
    "CasADi",
    "asdex",
)
#: whose first calls, which compile, have a column
COMPILED = ("dualad jit", "JAX jit")
PACKAGES = ("numpy", "scipy", "autograd", "jax", "torch", "casadi", "asdex")


def duration(seconds):
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"


def ratio(value):
    return f"{value:.0f}" if value >= 10 else f"{value:.2g}"


def verdicts(work, measured):
    """A line for each budget of the row: what is promised, what was found, met or missed."""
    for budget in work.budgets:
        judged = budget.judge(measured)
        if judged is None:
            yield f"{budget.says}: not measured"
        else:
            found = duration(judged[0]) if budget.under is None else f"{judged[0]:.2g}×"
            yield f"{budget.says}: {found}, {'met' if judged[1] else '**missed**'}"


def terminal(work, measured, left):
    """The row as a few lines of text."""
    lines = [f"{work.name}: {work.title}"]
    base = measured.get("dualad")
    for name, times in measured.items():
        beside = f"{times.ratio_to(base):9.2f} × dualad" if base else ""
        peak = f"   peak {times.peak / 1e6:.0f} MB" if times.peak else ""
        lines.append(f"  {name:<18}{duration(times.median):>10}{beside}   first call {duration(times.first)}{peak}")
    lines += [f"  {name:<18}left out: {reason}" for name, reason in left.items()]
    lines += [f"  budget {verdict.replace('*', '')}" for verdict in verdicts(work, measured)]
    return "\n".join(lines)


def cells(work, measured):
    base = measured.get("dualad")
    yield work.title
    yield duration(base.median) if base else "–"
    for name in COLUMNS:
        yield ratio(measured[name].ratio_to(base)) if base and name in measured else "–"
    firsts = [duration(measured[name].first) for name in COMPILED if name in measured]
    yield " · ".join(firsts) if len(firsts) == len(COMPILED) else "–"
    yield "<br>".join(verdicts(work, measured)) or "none set"


def table(rows):
    header = ("work", "dualad", *COLUMNS, "first call: ours · JAX's", "budget: found")
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    return lines + ["| " + " | ".join(cells(work, measured)) + " |" for work, measured, _ in rows]


def memory(rows):
    header = ("dualad", "NumPy primal", "hand-written", "autograd")
    lines = ["| work | " + " | ".join(header) + " |", "|---" * (len(header) + 1) + "|"]
    for work, measured, _ in rows:
        if work.memory:
            peaks = (measured.get(name) for name in header)
            shown = " | ".join(f"{m.peak / 1e6:.0f} MB" if m and m.peak else "–" for m in peaks)
            lines.append(f"| {work.title} | {shown} |")
    return lines[2:] and lines


def versions():
    found = []
    for package in PACKAGES:
        try:
            found.append(f"{package} {importlib.metadata.version(package)}")
        except importlib.metadata.PackageNotFoundError:
            found.append(f"{package} not installed")
    return f"Python {platform.python_version()}, {platform.machine()}, {os.cpu_count()} cores; " + ", ".join(found)


def load():
    """How busy the machine is, which the reader of a table should know: threads of BLAS wait for each other."""
    if not hasattr(os, "getloadavg"):
        return ""
    busy = os.getloadavg()[0]
    advice = "" if busy < os.cpu_count() else ": too busy for the rows that use matrix products to mean much"
    return f"load average {busy:.1f} on {os.cpu_count()} cores{advice}"


HEAD = """\
# Benchmarks

    make bench                                        # everything, and writes this file
    python -m benchmarks --quick                      # shorter rounds, 10⁶ elements instead of 10⁷
    python -m benchmarks --only chain-jvp             # one row; --list names them
    python -m benchmarks --only sparse                # sparse derivatives; python -m benchmarks.sparse: their growth
    python -m benchmarks --only scale                 # executors; python -m benchmarks.scale: how far they scale
    python -m benchmarks.dispatch [--profile jvp]     # µs an operation against autograd, or cProfile's table

dualad's column is a time (median over interleaved rounds); the others are **ratios to it, taken within each round**: 12
is twelve times as long as dualad, 0.5 half as long. "NumPy primal" only evaluates the function; "hand-written" is the
derivative as one would write it in NumPy. Before a row is timed, the results of all its contenders are compared
(relative 1e-9, float64). Absolute times vary with the machine and its load; read the ratios. First calls, which
compile, are in a column of their own; CasADi's graphs, which are built once, are in none. The budgets are the promises
of the design.
"""


MEMORY = """\
Peak memory allocated during one call, its result included and its arguments not (JAX and torch allocate where Python
can't see it):"""


def markdown(rows, command, busy):
    """The whole of `benchmarks/README.md` for the rows measured; `busy` is what `load` said before the first."""
    lines = [
        HEAD,
        f"Made by `{command}`: {versions()}; {busy}.",
        "",
        "<!-- table -->",
        "",
        *table(rows),
        "",
        "<!-- end of table -->",
    ]
    if peaks := memory(rows):
        lines += ["", MEMORY, "", *peaks]
    rows_left = {}
    for work, _, left in rows:
        for name, reason in left.items():
            rows_left.setdefault(f"{name}: {reason}", []).append(work.name)
    if rows_left:
        lines += ["", "Left out:", "", *(f"- {reason} ({', '.join(works)})." for reason, works in rows_left.items())]
    return "\n".join(lines) + "\n"
