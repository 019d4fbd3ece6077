"""A function of an evaluation: input and output as JSON has them, runs timed as GradBench asks. Not for messages."""

import time
from collections.abc import Callable
from typing import Any

__all__ = ["Evaluation", "evaluation"]


class Evaluation:
    """A function with what makes its argument of JSON and JSON of its result; only the function itself is timed."""

    def __init__(self, run: Callable[[Any], Any], prepare: Callable[[Any], Any], finish: Callable[[Any], Any]) -> None:
        self.run, self.prepare, self.finish = run, prepare, finish

    def answer(self, given: Any) -> dict[str, Any]:
        """Return the output and the time of every run, the first included: compilation is on the clock."""
        runs = given.get("min_runs", 1) if isinstance(given, dict) else 1
        seconds = given.get("min_seconds", 0.0) if isinstance(given, dict) else 0.0
        argument, timings, elapsed = self.prepare(given), [], 0
        while len(timings) < runs or elapsed < seconds * 1e9:
            start = time.perf_counter_ns()
            result = self.run(argument)
            timings.append(time.perf_counter_ns() - start)
            elapsed += timings[-1]
        timed = [{"name": "evaluate", "nanoseconds": t} for t in timings]
        return {"success": True, "output": self.finish(result), "timings": timed}


def evaluation(
    prepare: Callable[[Any], Any], finish: Callable[[Any], Any]
) -> Callable[[Callable[[Any], Any]], Evaluation]:
    """Return the decorator that makes an `Evaluation` of a function of one argument."""
    return lambda run: Evaluation(run, prepare, finish)
