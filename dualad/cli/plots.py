"""Pictures with matplotlib, which is optional: a Jacobian's pattern.

Not for terminals (``diagnose/pattern.py``), nor for the page of a check (``html.py``). Nothing here is imported
before a picture is asked for.
"""

from __future__ import annotations

import importlib
import importlib.util
import io

import numpy as np

from dualad.errors import UsageError

__all__ = ["has_matplotlib", "jacobian_png", "require_matplotlib"]


def has_matplotlib() -> bool:
    """Whether matplotlib is installed, without importing it."""
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
    # Without pyplot: no window, no global state.
    figure = importlib.import_module("matplotlib.figure").Figure(figsize=(4.6, 3.6), layout="constrained")
    axes = figure.add_subplot()
    values = np.ma.masked_where(matrix == 0, matrix)
    finite = np.abs(matrix[np.isfinite(matrix) & (matrix != 0)])
    largest = float(finite.max(initial=0.0)) or 1.0
    threshold = max(float(finite.min(initial=largest)), largest * 1e-6)
    norm = importlib.import_module("matplotlib.colors").SymLogNorm(linthresh=threshold, vmin=-largest, vmax=largest)
    image = axes.imshow(values, cmap="RdBu_r", norm=norm, aspect="auto", interpolation="nearest")
    axes.set(title=title, xlabel="inputs", ylabel="outputs")
    axes.title.set_fontsize(8)
    axes.locator_params(integer=True)
    middle = float(np.sqrt(largest * threshold))
    ticks = [-largest, -middle, 0.0, middle, largest] if middle < largest else [-largest, 0.0, largest]
    figure.colorbar(image, ticks=ticks, format="%.1e")
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=110)
    return buffer.getvalue()
