"""Pictures with matplotlib, which is optional: a Jacobian's pattern, and errors by oracle.

Not for terminals (``dualad/pattern.py``). Nothing here is imported before a picture is asked for.
"""

from __future__ import annotations

import importlib
import importlib.util
import io
from collections.abc import Sequence
from typing import Any

import numpy as np

from dualad.errors import UsageError
from dualad.testing import CheckReport

__all__ = ["errors_svg", "has_matplotlib", "jacobian_png", "require_matplotlib"]

_ORACLE_COLOURS = {
    "jax": "#1f77b4",
    "differences": "#2ca02c",
    "complex-step": "#9467bd",
    "dot": "#ff7f0e",
    "loop": "#7f7f7f",
    "numpy": "#17becf",
}


def has_matplotlib() -> bool:
    """Say whether matplotlib is installed, without importing it."""
    return importlib.util.find_spec("matplotlib") is not None


def require_matplotlib(option: str) -> None:
    """Refuse an option that needs matplotlib when it is not installed."""
    if not has_matplotlib():
        raise UsageError(
            f"You asked for {option}.",
            "Pictures are drawn with matplotlib, which is not installed in this environment.",
            "Install it: pip install 'dualad[viz]'. The terminal's picture needs nothing.",
        )


def jacobian_png(matrix: np.ndarray, title: str) -> bytes:
    """Draw a matrix: colour by sign and magnitude (symmetric logarithm), white for exact zeros."""
    figure, colors = _figure(4.6, 3.6)
    axes = figure.add_subplot()
    values = np.ma.masked_where(matrix == 0, matrix)
    finite = np.abs(matrix[np.isfinite(matrix) & (matrix != 0)])
    largest = float(finite.max(initial=0.0)) or 1.0
    threshold = max(float(finite.min(initial=largest)), largest * 1e-6)
    norm = colors.SymLogNorm(linthresh=threshold, vmin=-largest, vmax=largest)
    image = axes.imshow(values, cmap="RdBu_r", norm=norm, aspect="auto", interpolation="nearest")
    axes.set(title=title, xlabel="inputs", ylabel="outputs")
    axes.title.set_fontsize(8)
    axes.locator_params(integer=True)
    middle = float(np.sqrt(largest * threshold))
    ticks = [-largest, -middle, 0.0, middle, largest] if middle < largest else [-largest, 0.0, largest]
    figure.colorbar(image, ticks=ticks, format="%.1e")
    return _saved(figure, "png")


def errors_svg(reports: Sequence[CheckReport]) -> str:
    """Draw every row's largest relative error, a colour for each oracle, on a logarithmic scale."""
    quantities = list(dict.fromkeys(row.quantity for report in reports for row in report.rows))
    figure, _ = _figure(7.5, 3.4)
    axes = figure.add_subplot()
    oracles = [name for name in _ORACLE_COLOURS if _points(reports, quantities, name)]
    for k, name in enumerate(oracles):
        at, errors = zip(*_points(reports, quantities, name), strict=True)
        shift = (k - (len(oracles) - 1) / 2) * 0.12
        axes.semilogy(
            np.array(at) + shift,
            np.maximum(errors, 1e-17),
            "o",
            ms=4,
            alpha=0.6,
            color=_ORACLE_COLOURS[name],
            label=name,
        )
    axes.set_xticks(range(len(quantities)), quantities, rotation=25, fontsize=8)
    axes.set(ylabel="largest relative error", title="Distance from each oracle, all functions and points")
    axes.grid(axis="y", alpha=0.3)
    if oracles:
        axes.legend(fontsize=7, ncols=3)
    return _saved(figure, "svg").decode()


def _points(reports: Sequence[CheckReport], quantities: list[str], oracle: str) -> list[tuple[int, float]]:
    return [
        (quantities.index(row.quantity), outcome.max_error)
        for report in reports
        for row in report.rows
        for outcome in row.outcomes
        if outcome.oracle == oracle and outcome.max_error is not None and np.isfinite(outcome.max_error)
    ]


def _figure(wide: float, high: float) -> tuple[Any, Any]:
    """Make a figure without pyplot: no window, no global state."""
    figure = importlib.import_module("matplotlib.figure").Figure(figsize=(wide, high), layout="constrained")
    return figure, importlib.import_module("matplotlib.colors")


def _saved(figure: Any, kind: str) -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, format=kind, dpi=110)
    return buffer.getvalue()
