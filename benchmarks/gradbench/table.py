"""A table of the sessions: our times as ratios to each other tool's, warm and with the first call."""

import json
import math
import statistics
from pathlib import Path
from typing import Any

__all__ = ["read", "table"]

DERIVATIVES = {"jacobian", "gradient", "dir", "double"}
EITHER = {"ff", "fr", "rf", "rr"}  # four functions that do the same; the quickest counts


def read(sessions: Path) -> dict[str, dict[str, list[dict[str, Any]]]]:
    """Return evaluation -> tool -> records of what was right."""
    found: dict[str, dict[str, list[dict[str, Any]]]] = {}
    for file in sorted(sessions.glob("*-*.json")):
        name, tool = file.stem.split("-")
        found.setdefault(name, {})[tool] = [r for r in json.loads(file.read_text()) if r["valid"]]
    return found


def warm(record: dict[str, Any]) -> float:
    """Return the shortest of the runs after the first one, in nanoseconds; a lone run is what there is."""
    return min(record["nanoseconds"][1:] or record["nanoseconds"])


def average(record: dict[str, Any]) -> float:
    return statistics.fmean(record["nanoseconds"])


def keyed(records: list[dict[str, Any]]) -> dict[tuple[str, str], dict[str, Any]]:
    return {(r["function"], r["description"]): r for r in records if r["nanoseconds"]}


def ratios(ours: list[dict[str, Any]], theirs: list[dict[str, Any]]) -> tuple[str, str, str]:
    """Return the geometric means of warm ratios of primals and derivatives with the largest, and GradBench's ratio."""
    mine, other = keyed(ours), keyed(theirs)
    both = [key for key in mine if key in other]
    if not both:
        return "–", "–", "–"
    means = []
    for derivative in (False, True):
        logs = [
            math.log(warm(mine[k]) / warm(other[k]))
            for k in both
            if k[0] not in EITHER and (k[0] in DERIVATIVES) == derivative
        ]
        means.append(f"{math.exp(statistics.fmean(logs)):.2f} (≤ {math.exp(max(logs)):.2f})" if logs else "–")
    total = min if both[0][0] in EITHER else sum
    score = total(average(mine[k]) for k in both) / total(average(other[k]) for k in both)
    return means[0], means[1], f"{score:.2f}"


def table(sessions: Path) -> str:
    """Return the table in Markdown: a row for an evaluation, three columns for another tool."""
    found = read(sessions)
    others = [t for t in ("jax", "pytorch", "manual") if any(t in tools for tools in found.values())]
    head = [f"{t}: {what}" for t in others for what in ("primal", "derivative", "with first calls")]
    lines = ["| evaluation | " + " | ".join(["right", *head]) + " |", "|---" * (len(head) + 2) + "|"]
    for name, tools in found.items():
        ours = tools.get("dualad", [])
        cells = [cell for t in others for cell in ratios(ours, tools.get(t, []))]
        lines.append("| " + " | ".join([name, str(len(ours)), *cells]) + " |")
    return "\n".join(lines)
