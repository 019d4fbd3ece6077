"""Run GradBench's evaluations with our tool and its own ones, and print what they took.

    git clone https://github.com/gradbench/gradbench
    python -m benchmarks.gradbench gradbench [--eval ode det] [--tool dualad jax pytorch manual] [-- --min-seconds 0.3]
    python -m benchmarks.gradbench gradbench --table-only

The evaluations and the other tools are those of the clone, run by this Python, in which pydantic, dataclasses_json, jax
and torch have to be installed; what stands after ``--`` goes to the evaluations. They take the right answers from the
tool ``manual``: build it first (``make -C cpp; make -C tools/manual`` there). Every tool has one thread, and JAX's has
to wait for its results. The sessions are kept in a folder, one file for an evaluation and a tool.
"""

import argparse
import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from benchmarks.gradbench.table import table
from benchmarks.gradbench.tool import EVALUATIONS

__all__ = ["main"]

REPOSITORY = Path(__file__).resolve().parents[2]
TOOLS = ("dualad", "jax", "pytorch", "manual")
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


class Peer:
    """A process that is sent lines and answers each with one."""

    def __init__(self, command: list[str], folder: Path, paths: list[Path]) -> None:
        env = os.environ | ONE_THREAD
        env["PYTHONPATH"] = os.pathsep.join([*map(str, paths), env.get("PYTHONPATH", "")])
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        self.process = subprocess.Popen(command, cwd=folder, env=env, text=True, **pipes)

    def send(self, line: str) -> None:
        self.process.stdin.write(line)
        self.process.stdin.flush()

    def receive(self, limit: float | None = None) -> str:
        """Return the next line; "" if the process has ended or takes longer than the limit, in seconds."""
        clock = threading.Timer(limit, self.process.kill) if limit else None
        if clock:
            clock.start()
        line = self.process.stdout.readline()
        if clock:
            clock.cancel()
        return line

    def end(self) -> None:
        self.process.kill()
        self.process.wait()


def tool_command(tool: str, clone: Path, clock: list[str]) -> tuple[list[str], Path]:
    """Return how a tool is started, and where."""
    if tool == "dualad":
        return [sys.executable, "-m", "benchmarks.gradbench.tool", *clock], REPOSITORY
    if tool == "manual":
        return [sys.executable, "python/gradbench/gradbench/cpp.py", "manual"], clone
    script = f"python/gradbench/gradbench/tools/{tool}/run.py"
    return [sys.executable, str(Path(__file__).with_name("waiting.py")), script, *clock], clone


def run_session(
    clone: Path, name: str, tool: str, limit: float, clock: list[str], rest: list[str]
) -> list[dict[str, Any]]:
    """Return a record of every function that the evaluation asked for: its times and whether the result was right."""
    library = clone / "python" / "gradbench"
    script = library / "gradbench" / "evals" / name / "run.py"
    evaluation = Peer([sys.executable, str(script), *(rest if name != "hello" else [])], clone, [library])
    command, folder = tool_command(tool, clone, clock)
    contender = Peer(command, folder, [library] if tool != "dualad" else [REPOSITORY])
    records: list[dict[str, Any]] = []
    failed = False
    try:
        while line := evaluation.receive():
            message = json.loads(line)
            if message["kind"] == "analysis":
                records[-1] |= {"valid": message["valid"], "error": message.get("error")}
            contender.send(line)
            answer = contender.receive(limit)
            reply = json.loads(answer) if answer else {"id": message["id"], "success": False, "error": "it ended"}
            if message["kind"] == "evaluate":
                times = [t["nanoseconds"] for t in reply.get("timings", ()) if t["name"] == "evaluate"]
                what = {"function": message["function"], "description": message.get("description", "")}
                records.append(what | {"nanoseconds": times, "valid": False, "error": reply.get("error")})
            elif not reply.get("success", True):
                records.append({"function": "", "description": "", "nanoseconds": [], "valid": False})
                records[-1]["error"] = reply.get("error") or "not defined"
            if not answer:
                break
            evaluation.send(answer)
        else:
            failed = evaluation.process.wait() != 0
    finally:
        evaluation.end()
        contender.end()
    if failed or not records:
        records.append({"function": "", "description": "", "nanoseconds": [], "valid": False})
        records[-1]["error"] = "the evaluation ended before it was done"
    return records


def main() -> int:
    ours, rest = sys.argv[1:], []
    if "--" in ours:
        at = ours.index("--")
        ours, rest = ours[:at], ours[at + 1 :]
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gradbench", description=__doc__.splitlines()[0])
    parser.add_argument("clone", type=Path, help="a clone of gradbench/gradbench")
    parser.add_argument("--eval", nargs="+", choices=EVALUATIONS, default=EVALUATIONS)
    parser.add_argument("--tool", nargs="+", choices=TOOLS, default=TOOLS)
    parser.add_argument("--limit", type=float, default=600.0, help="seconds for an answer")
    parser.add_argument("--sessions", type=Path, default=Path("gradbench-sessions"), help="the folder for results")
    parser.add_argument("--table-only", action="store_true", help="print the table of the sessions that are there")
    parser.add_argument("--processor-time", action="store_true", help="of Python's tools, where others use the machine")
    args = parser.parse_args(ours)
    clock = ["--processor-time"] if args.processor_time else []
    args.sessions.mkdir(exist_ok=True)
    wrong = 0
    for name in args.eval if not args.table_only else ():
        for tool in args.tool:
            records = run_session(args.clone.resolve(), name, tool, args.limit, clock, rest)
            (args.sessions / f"{name}-{tool}.json").write_text(json.dumps(records, indent=1))
            right = sum(r["valid"] for r in records)
            print(f"{name}, {tool}: {right} of {len(records)} right", flush=True)
            for r in records:
                if not r["valid"]:
                    print(f"    {r['function']} {r['description']}: {(r['error'] or '')[-300:]}", flush=True)
            wrong += tool == "dualad" and right < len(records)
    print(table(args.sessions))
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
