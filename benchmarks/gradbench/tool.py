"""The tool: one JSON message a line from standard input, one answer a line to standard output.

    python -m benchmarks.gradbench.tool [--processor-time]

GradBench's harness starts it with ``--tool "python -m benchmarks.gradbench.tool"``; ``python -m benchmarks.gradbench``
is a harness of our own. Not for the mathematics: an evaluation is the module of its name.
"""

import json
import sys
import time
import traceback
from importlib import import_module
from typing import Any

__all__ = ["EVALUATIONS", "answer", "main"]

EVALUATIONS = ("ba", "det", "gmm", "hello", "ht", "kmeans", "llsq", "lse", "lstm", "ode", "particle", "saddle")


def answer(message: dict[str, Any]) -> dict[str, Any]:
    """Return the answer to a message; what goes wrong is told, and the tool goes on."""
    reply: dict[str, Any] = {"id": message["id"]}
    try:
        if message["kind"] == "start":
            reply["tool"] = "dualad"
        elif message["kind"] == "define":
            reply["success"] = message["module"] in EVALUATIONS
            if reply["success"]:
                import_module(f"benchmarks.gradbench.{message['module']}")
        elif message["kind"] == "evaluate":
            module = import_module(f"benchmarks.gradbench.{message['module']}")
            reply |= getattr(module, message["function"]).answer(message["input"])
    except Exception:
        reply |= {"success": False, "error": traceback.format_exc()}
    return reply


def main() -> None:
    if "--processor-time" in sys.argv[1:]:  # of a machine that others use at the same time
        time.perf_counter_ns = time.process_time_ns
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
