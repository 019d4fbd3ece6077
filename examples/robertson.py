"""Robertson's stiff chemical kinetics: SciPy's implicit solver with an exact Jacobian from plain code.

Three species react at rates nine orders of magnitude apart, so only implicit methods take reasonable steps, and they
need the Jacobian of `rates`. SciPy would estimate it by finite differences, of concentrations as small as 1e-13.
`dualad.jacfwd(rates, argnums=1)` is exact, and has the signature that `solve_ivp` asks of `jac`.

Look at the concentrations over eleven decades of time (the tests compare them with published values); at their
sum, which stays 1; and at the number of calls of `rates`.
"""

import numpy as np
from scipy.integrate import solve_ivp

import dualad as da

START = np.array([1.0, 0.0, 0.0])
TIMES = np.array([0.4, 40.0, 4e4, 4e10])


def rates(t, y, k=(0.04, 3e7, 1e4)):
    """dy/dt of  A -> B (k0),  B + B -> B + C (k1),  B + C -> A + C (k2);  `solve_ivp` wants the unused `t`."""
    slow, fast, back = k[0] * y[0], k[1] * y[1] ** 2, k[2] * y[1] * y[2]
    return np.stack([back - slow, slow - back - fast, fast])


def integrate(jac):
    """SciPy's solution at `TIMES`, and how often it called `rates`."""
    calls = 0

    def counted(t, y):
        nonlocal calls
        calls += 1
        return rates(t, y)

    return solve_ivp(counted, (0.0, TIMES[-1]), START, "Radau", TIMES, jac=jac, rtol=1e-8, atol=1e-16), calls


def main():
    solution, calls = integrate(da.jacfwd(rates, argnums=1))
    for t, y in zip(solution.t, solution.y.T, strict=True):
        print(f"t = {t:7.1e}   A {y[0]:.7e}   B {y[1]:.7e}   C {y[2]:.7e}   sum - 1 = {y.sum() - 1:+.0e}")
    print(
        f"{calls} calls of `rates` and {solution.njev} Jacobians; with SciPy's differences {integrate(None)[1]} calls"
    )
    return {"y": solution.y, "success": solution.success, "calls": calls}


__dualad__ = {
    "rates": [(0.0, np.array([0.7, 9e-6, 0.3])), (0.0, np.array([0.5, 0.2, 0.3]), np.array([0.04, 3.0, 1.0]))],
}

if __name__ == "__main__":
    main()
