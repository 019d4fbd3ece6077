"""``python -m tests.adversaries KIND``: many programs of a kind, each with a limit of time, in processes that may die.

For: counts, and the smallest program of each difference. Not for: a slice in the gate (``test_adversaries.py``).
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time

from .cases import KINDS, NIGHTLY, LeftOut, Report, kind, shrunk, words
from .faults import table
from .sanitized import install, is_preloaded

#: programs of one process: compiled code stays in memory
_EACH = 1500


def main() -> int:
    """Return the exit status: 1 if anything is different."""
    parser = argparse.ArgumentParser(prog="python -m tests.adversaries", description=__doc__)
    parser.add_argument("kind", nargs="?", help=f"{', '.join(KINDS)}, all, or faults; nothing: the kinds")
    parser.add_argument("--count", type=int, help="programs of each kind (what a night runs)")
    parser.add_argument("--seed", type=int, default=0, help="the first program's (0)")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="for each kind, at most")
    parser.add_argument("--limit", type=float, default=120.0, help="seconds for one program (120)")
    parser.add_argument("--no-shrink", action="store_true", help="programs as they were made")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.kind == "faults":
        told = table()
        print(told)
        return int("NOTHING" in told)
    if given.kind is None:
        print("\n".join([f"{name:12} {NIGHTLY[name]:6} a night, {count} in the gate" for name, count in KINDS.items()]))
        return 0
    if given.worker:
        _work(given.kind, given.seed, given.count, not given.no_shrink)
        return 0
    reports = []
    for name in KINDS if given.kind == "all" else [given.kind]:
        count = NIGHTLY[name] if given.count is None else given.count
        reports.append(_supervise(name, count, given.seed, given.seconds, given.limit, given.no_shrink))
        print(reports[-1], flush=True)
    return int(any([r.found for r in reports]))


def _work(name: str, seed: int, count: int, shrink: bool) -> None:
    """Write a line when a program begins and one when it has ended."""
    if is_preloaded():
        install()
    case_of, left = kind(name), LeftOut()
    logging.getLogger("dualad").addHandler(left)
    for number in range(seed, seed + count):
        case = case_of(number)
        print(json.dumps({"seed": number, "text": case.text}), flush=True)
        what = words(case)
        if what:
            print(json.dumps({"seed": number, "text": case.text, "what": what, "shrinking": True}), flush=True)
            least, what = shrunk(case, what) if shrink else (case, what)
            print(json.dumps({"seed": number, "text": least.text, "what": what}), flush=True)
        else:
            print(
                json.dumps({"seed": number, "same": True, "void": what is not None, "left": left.taken()}), flush=True
            )


def _supervise(name: str, count: int, seed: int, seconds: float, limit: float, no_shrink: bool) -> Report:
    """Return the report of programs that run in a process of their own; a new one follows where that dies or hangs."""
    report, start, stop = Report(name), time.monotonic(), seed + count
    with tempfile.TemporaryDirectory() as cache:
        environment = {**os.environ, "DUALAD_CACHE": os.environ.get("DUALAD_CACHE", cache)}
        while seed < stop and time.monotonic() - start < seconds:
            command = [sys.executable, "-X", "faulthandler", "-m", __package__, name, "--worker"]
            command += ["--seed", str(seed), "--count", str(min(stop - seed, _EACH))]
            command += ["--no-shrink"] if no_shrink else []
            with tempfile.TemporaryFile("w+") as errors:
                # Unbuffered: what has been read and not looked at yet is nothing that select() would tell of.
                worker = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, bufsize=0, env=environment)
                seed = _follow(worker, report, seed, start + seconds, limit)
                errors.seek(0)
                told = errors.read().strip().splitlines()
            if report.found and report.found[-1][1].startswith("the process") and told:
                number, what, text = report.found[-1]
                report.found[-1] = (number, f"{what}: {' | '.join(told[-3:])[:300]}", text)
    report.seconds = time.monotonic() - start
    return report


def _follow(worker: subprocess.Popen, report: Report, seed: int, end: float, limit: float) -> int:
    """Return the seed to go on with when a worker has ended, for whatever reason."""
    selector = selectors.DefaultSelector()
    selector.register(worker.stdout, selectors.EVENT_READ)
    running: dict | None = None
    try:
        while True:
            wait = max(0.0, min(limit, end - time.monotonic()))
            if not selector.select(wait):
                if time.monotonic() < end:
                    if running is not None and "shrinking" not in running:
                        report.count += 1
                        report.found.append((running["seed"], f"no end within {limit:.0f} s", running["text"]))
                    elif running is not None:
                        _note(report, running)
                return seed + 1 if running is not None else seed
            line = worker.stdout.readline()
            if not line:
                status = worker.wait()
                if running is None:
                    if status:
                        raise SystemExit(f"the worker of {report.kind} ended with {status} before its first program")
                    return seed
                if "shrinking" in running:
                    _note(report, running)
                else:
                    name = signal.Signals(-status).name if status < 0 else f"status {status}"
                    report.count += 1
                    report.found.append((running["seed"], f"the process died: {name}", running["text"]))
                return running["seed"] + 1
            said = json.loads(line)
            seed, running = said["seed"], said
            if "same" in said or ("what" in said and "shrinking" not in said):
                report.count += 1
                report.void += said.get("void", False)
                report.left_out.update(said.get("left", []))
                if "what" in said:
                    report.found.append((said["seed"], said["what"], said["text"]))
                seed, running = seed + 1, None
    finally:
        if worker.poll() is None:
            worker.kill()
        worker.wait()
        worker.stdout.close()
        selector.close()


def _note(report: Report, running: dict) -> None:
    report.count += 1
    report.found.append((running["seed"], running["what"], running["text"]))


if __name__ == "__main__":
    sys.exit(main())
