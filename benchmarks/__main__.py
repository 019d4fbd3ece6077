"""``python -m benchmarks``: measure the rows and print them; ``--markdown FILE`` also writes the table.

Exit status 0 when every row was measured, whether or not its budget was met (machines differ); 1 when a row could not
be measured or its contenders disagree; 2 on bad usage.
"""

import argparse
import sys
import traceback
from pathlib import Path

import dualad
from benchmarks import (
    bodies,
    chains,
    compiled,
    imports,
    large,
    lazy,
    models,
    optima,
    orders,
    report,
    scale,
    sparse,
    trajectories,
)
from benchmarks.harness import run_work


def main(argv=None):
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="shorter rounds and smaller arrays")
    parser.add_argument(
        "--only", action="append", metavar="NAME", help="only this row, or those called NAME-… (repeatable)"
    )
    parser.add_argument("--without", action="append", default=[], metavar="LIBRARY", help="leave a contender out")
    parser.add_argument("--list", action="store_true", help="print the names of the rows and stop")
    parser.add_argument("--markdown", metavar="FILE", type=Path, help="write the table here")
    args = parser.parse_args(argv)
    rooms = (imports, chains, models, large, sparse, lazy, scale, compiled, bodies, optima, trajectories, orders)
    works = [work for room in rooms for work in room.works(args.quick)]
    names = [work.name for work in works]
    if args.list:
        print("\n".join(f"{work.name:<18}{work.title}" for work in works))
        return 0
    wanted = {name for name in names if any(name == o or name.startswith(f"{o}-") for o in args.only or ())}
    if unknown := {o for o in args.only or () if not any(name == o or name.startswith(f"{o}-") for name in names)}:
        parser.error(f"no row is called {', '.join(sorted(unknown))}; the rows are {', '.join(names)}")
    dualad.keep_freed_memory()  # for every contender, or a row would depend on the arrays of those before it
    rounds, slice_seconds = (5, 0.02) if args.quick else (11, 0.1)
    rows, failed, busy = [], [], report.load()
    print(busy)
    for work in works:
        if args.only and work.name not in wanted:
            continue
        try:
            measured, left = run_work(work, rounds, slice_seconds, frozenset(args.without))
        except Exception:
            traceback.print_exc()
            failed.append(work.name)
            continue
        rows.append((work, measured, left))
        print(report.terminal(work, measured, left), flush=True)
    if args.markdown and not failed:
        command = " ".join(["python -m benchmarks", *(sys.argv[1:] if argv is None else argv)])
        args.markdown.write_text(report.markdown(rows, command, busy), encoding="utf-8")
        print(f"written: {args.markdown}")
    if failed:
        print(f"not measured: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
