"""SciPy's names, for the functions that NumPy's protocols can't reach: Python code that coerces, and compiled code.

``dualad.scipy.linalg.solve`` takes what ``scipy.linalg.solve`` takes; called with plain arrays it *is* SciPy's, called
with tensors it is differentiated, batched and traced. A name without such a version is SciPy's own and refuses tensors
with words. SciPy is an optional part: ``pip install 'dualad[scipy]'``.
Not for: rules (``ops/``), or functions that SciPy does not have.
"""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any

try:
    import scipy
except ImportError as error:
    raise ImportError(
        "dualad.scipy needs SciPy, which is not installed.\n"
        "  Why: the differentiable versions of its functions compute their values by SciPy itself\n"
        "  Instead: pip install 'dualad[scipy]'"
    ) from error

__all__: list[str] = []


def __getattr__(name: str) -> Any:
    """Import a subpackage when it is first asked for; what has no version here is SciPy's."""
    if not name.startswith("_") and importlib.util.find_spec(f"{__name__}.{name}") is not None:
        return importlib.import_module(f"{__name__}.{name}")
    return getattr(scipy, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *dir(scipy)})
