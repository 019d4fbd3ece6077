"""Mistakes that type checkers must see: each marked line is an error, and `make types` fails when one is not."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

import dualad as da


def energy(x: npt.NDArray[np.float64], stiffness: float = 1.0) -> np.float64:
    return np.float64(0.5 * stiffness * np.sum(x * x))


point = np.array([1.0, 2.0])
da.grad(energy)(point, stifness=2.0)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
da.hessian(energy)()  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
da.lift(energy)("point")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
da.checkpoint(energy)(point, "soft")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
text: str = da.jvp(energy, (point,), (point,))[0]  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
da.no_such_name  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]  # noqa: B018
