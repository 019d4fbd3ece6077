"""Fitting a ringing sensor: `scipy.optimize.least_squares` with an exact Jacobian from plain NumPy code.

A damped oscillation with a drifting baseline, sampled 200 times with noise of a known size. `residuals` is what one
would write anyway; `dualad.jacfwd(residuals)` has the signature that `least_squares` asks of `jac`, extra
arguments included. At the solution the same Jacobian gives the standard errors.

Look at the last column: in units of its standard error, each fitted value is off by about one, as it should be; and
at the number of calls of `residuals` that SciPy's finite differences would have cost.
"""

import numpy as np
from scipy.optimize import least_squares

import dualad as da

NAMES = ("amplitude", "damping", "frequency", "phase", "offset", "drift")
TRUTH = np.array([2.0, 0.35, 5.0, 0.4, 1.0, -0.1])
GUESS = np.array([1.0, 0.1, 4.6, 0.0, 0.0, 0.0])
NOISE = 0.05


def signal(p, t):
    """Damped oscillation on a straight baseline; `p` in the order of `NAMES`."""
    return p[0] * np.exp(-p[1] * t) * np.cos(p[2] * t + p[3]) + p[4] + p[5] * t


def residuals(p, t, samples):
    return (signal(p, t) - samples) / NOISE


def measure(seed=0):
    """Times and noisy samples of the true signal."""
    t = np.linspace(0.0, 6.0, 200)
    return t, signal(TRUTH, t) + NOISE * np.random.default_rng(seed).normal(size=t.size)


def main():
    data = measure()
    calls = {}

    def counted(name):
        def call(*args):
            calls[name] = calls.get(name, 0) + 1
            return residuals(*args)

        return call

    fit = least_squares(counted("exact Jacobian"), GUESS, da.jacfwd(residuals), args=data, ftol=1e-14)
    least_squares(counted("differences"), GUESS, "3-point", args=data, ftol=1e-14)
    errors = np.sqrt(np.diag(np.linalg.inv(fit.jac.T @ fit.jac)))
    for name, value, error, true in zip(NAMES, fit.x, errors, TRUTH, strict=True):
        print(f"{name:>10} = {value:8.4f} ± {error:.4f}   true {true:5.2f}   off by {(value - true) / error:+.1f}")
    print(f"norm of the gradient {np.linalg.norm(fit.grad):.1e}; calls of `residuals`: {calls}")
    return {"fit": fit, "errors": errors, "calls": calls}


SHORT = np.linspace(0.0, 6.0, 7)

__dualad__ = {"signal": [(TRUTH, SHORT)], "residuals": [(GUESS, SHORT, signal(TRUTH, SHORT))]}

if __name__ == "__main__":
    main()
