"""Six stiff problems: compiled Rodas5P, Radau and BDF beside SciPy's own, and diffrax's Kvaerno5.

Two more are differential-algebraic, with a mass matrix, beside SUNDIALS's IDA as scikit-sundae calls it.
``python -m benchmarks.stiff`` prints error and time of each at several tolerances, with the gradient's time, and
``python -m benchmarks.stiff FILE.svg`` draws them. The first calls, which compile, are not in the times. Not for:
problems that are not stiff (``trajectories.py``).
"""

import importlib
import itertools
import sys
import time

import numpy as np
import scipy.integrate as si

import dualad as da

__all__ = ["DAES", "PROBLEMS", "dae_table", "table"]


def robertson(t, y, p):
    """Robertson (1966); Hairer and Wanner, *Solving Ordinary Differential Equations II*, IV.10, as all of these."""
    slow, back, fast = p[0] * y[0], p[1] * y[1] * y[2], p[2] * y[1] ** 2
    return [back - slow, slow - back - fast, fast]


def hires(t, y, p):
    """Schäfer's photomorphogenesis of plants (1975)."""
    bound, formed = p[6] * y[5] * y[7], p[7] * y[6]
    return [
        -p[0] * y[0] + p[1] * y[1] + p[2] * y[2] + p[8], p[0] * y[0] - (p[1] + p[3]) * y[1],
        -(p[2] + p[0]) * y[2] + p[1] * y[3] + p[4] * y[4], p[3] * y[1] + p[0] * y[2] - 1.12 * y[3],
        -1.745 * y[4] + p[1] * (y[5] + y[6]), -bound + p[5] * y[3] + p[0] * y[4] - p[1] * y[5] + p[5] * y[6],
        bound - formed, formed - bound,
    ]  # fmt: skip


def orego(t, y, p):
    """Field and Noyes's oscillating reaction (1974)."""
    return [p[0] * (y[1] + y[0] * (1 - p[2] * y[0] - y[1])), (y[2] - (1 + y[0]) * y[1]) / p[0], p[1] * (y[0] - y[2])]


def van_der_pol(t, y, p):
    return [y[1], p[0] * (1 - y[0] ** 2) * y[1] - y[0]]


def e5(t, y, p):
    """Enright, Hull and Lindberg's problem E5 (1975)."""
    first, second, third, last = p[0] * y[0], p[1] * y[0] * y[2], p[2] * p[3] * y[1] * y[2], p[3] * y[3]
    return [-first - second, first - third, first - second - third + last, second - last]


def pollution(t, y, p):
    """Verwer's model of the air (1994): 20 species, 25 reactions."""
    first = np.array([1, 2, 5, 7, 7, 7, 9, 9, 11, 11, 13, 10, 14, 1, 3, 4, 4, 16, 16, 17, 19, 19, 1, 19, 20]) - 1
    second = {1: 4, 2: 2, 5: 6, 7: 6, 8: 2, 9: 1, 11: 2, 13: 6, 19: 6, 22: 4, 23: 1}
    r = [p[i] * y[j] * (y[second[i] - 1] if i in second else 1.0) for i, j in enumerate(first)]
    return [
        -r[0] - r[9] - r[13] - r[22] - r[23] + r[1] + r[2] + r[8] + r[10] + r[11] + r[21] + r[24],
        -r[1] - r[2] - r[8] - r[11] + r[0] + r[20], -r[14] + r[0] + r[16] + r[18] + r[21],
        -r[1] - r[15] - r[16] - r[22] + r[14], -r[2] + 2 * r[3] + r[5] + r[6] + r[12] + r[19],
        -r[5] - r[7] - r[13] - r[19] + r[2] + 2 * r[17], -r[3] - r[4] - r[5] + r[12], r[3] + r[4] + r[5] + r[6],
        -r[6] - r[7], -r[11] + r[6] + r[8], -r[8] - r[9] + r[7] + r[10], r[8], -r[10] + r[9], -r[12] + r[11], r[13],
        -r[17] - r[18] + r[15], -r[19], r[19], -r[20] - r[21] - r[23] + r[22] + r[24], -r[24] + r[23],
    ]  # fmt: skip


_AIR = np.zeros(20)
_AIR[[1, 3, 6, 7, 8, 16]] = [0.2, 0.04, 0.1, 0.3, 0.01, 0.007]
_REACTIONS = [
    0.35, 26.6, 12300.0, 0.00086, 0.00082, 15000.0, 0.00013, 24000.0, 16500.0, 9000.0, 0.022, 12000.0, 1.88, 16300.0,
    4.8e6, 0.00035, 0.0175, 1e8, 4.44e11, 1240.0, 2.1, 5.78, 0.0474, 1780.0, 3.12,
]  # fmt: skip
#: right-hand side, times, initial state, parameters, and the size below which a state needs no relative accuracy
PROBLEMS = {
    "robertson": (robertson, (0.0, 1e5), np.array([1.0, 0.0, 0.0]), np.array([0.04, 1e4, 3e7]), 1e-8),
    "hires": (
        hires, (0.0, 321.8122), np.array([1.0, 0, 0, 0, 0, 0, 0, 0.0057]),
        np.array([1.71, 0.43, 8.32, 0.69 + 8.06, 0.035, 0.69, 280.0, 1.81, 0.0007]), 1e-4,
    ),
    "orego": (orego, (0.0, 360.0), np.array([1.0, 2.0, 3.0]), np.array([77.27, 0.161, 8.375e-6]), 1e-6),
    "van der pol": (van_der_pol, (0.0, 2000.0), np.array([2.0, 0.0]), np.array([1e3]), 1e-6),
    "e5": (e5, (0.0, 1e5), np.array([1.76e-3, 0, 0, 0]), np.array([7.89e-10, 1.1e7, 1e6, 1.13e3]), 1e-20),
    "pollution": (pollution, (0.0, 60.0), _AIR, np.array(_REACTIONS), 1e-8),
}  # fmt: skip


def conserved(t, y, p):
    """Robertson's reactions, the third equation the sum of what there is."""
    return [*robertson(t, y, p)[:2], y[0] + y[1] + y[2] - 1]


def amplifier(t, y, p):
    """Rentrop, Roche and Steinebach's transistor amplifier (1989), its input and its current amplification in p."""
    diode = lambda u: 1e-6 * (np.exp(u / 0.026) - 1)
    first, second = diode(y[1] - y[2]), diode(y[4] - y[5])
    return [
        (y[0] - p[0] * np.sin(200 * np.pi * t)) / 1e3, (2 * y[1] - 6) / 9e3 + (1 - p[1]) * first, y[2] / 9e3 - first,
        (y[3] - 6) / 9e3 + p[1] * first, (2 * y[4] - 6) / 9e3 + (1 - p[1]) * second, y[5] / 9e3 - second,
        (y[6] - 6) / 9e3 + p[1] * second, y[7] / 9e3,
    ]  # fmt: skip


def capacities():
    mass = np.zeros((8, 8))
    for capacity, nodes in zip(1e-6 * np.arange(1, 6), ((0, 1), (2,), (3, 4), (5,), (6, 7)), strict=True):
        mass[np.ix_(nodes, nodes)] = capacity * (1 - 2 * np.eye(len(nodes)))
    return mass


#: the same, and the mass matrix
DAES = {
    "robertson": (conserved, *PROBLEMS["robertson"][1:], np.diag([1.0, 1.0, 0.0])),
    "amplifier": (
        amplifier, (0.0, 0.2), np.array([0.0, 3, 3, 6, 3, 3, 6, 0]), np.array([0.1, 0.99]), 1.0, capacities(),
    ),
}  # fmt: skip


def by_dualad(method):
    def make(f, span, y0, options):
        solve_ivp = importlib.import_module("dualad.scipy.integrate").solve_ivp
        end = lambda p: solve_ivp(f, span, y0, method, args=(p,), **options).y[:, -1]
        return da.jit(end), da.jit(da.grad(lambda p: end(p)[0]))

    return make


def by_ida(f, span, y0, options):
    ida, mass = importlib.import_module("sksundae.ida").IDA, options.pop("mass")

    def end(p):
        def residual(t, y, yp, out):
            out[:] = mass @ yp - f(t, y, p)

        slopes = np.linalg.pinv(mass) @ f(span[0], y0, p)
        return ida(residual, **options, max_num_steps=10**6).solve(np.array(span), y0, slopes).y[-1]

    return end, None


def by_scipy(method):
    def make(f, span, y0, options):
        return lambda p: si.solve_ivp(f, span, y0, method, args=(p,), **options).y[:, -1], None

    return make


def by_diffrax(f, span, y0, options):
    diffrax, jax = importlib.import_module("diffrax"), importlib.import_module("jax")
    jax.config.update("jax_enable_x64", True)
    right = diffrax.ODETerm(lambda t, y, p: jax.numpy.stack(f(t, y, p)))
    control = diffrax.PIDController(**options)

    def end(p):
        return diffrax.diffeqsolve(
            right, diffrax.Kvaerno5(), *span, None, jax.numpy.asarray(y0), args=p, stepsize_controller=control,
            max_steps=16**4,
        ).ys[0]  # fmt: skip

    return jax.jit(end), jax.jit(jax.grad(lambda p: end(p)[0]))


CONTENDERS = {
    "dualad Rodas5P": by_dualad("Rodas5P"), "dualad Radau": by_dualad("Radau"), "dualad BDF": by_dualad("BDF"),
    "SciPy Radau": by_scipy("Radau"), "SciPy BDF": by_scipy("BDF"), "diffrax Kvaerno5": by_diffrax,
}  # fmt: skip


def clock(call, p, least=2, most=0.2):
    """Return the least processor time of a call, each at a point of its own."""
    found, began = [], time.process_time()
    for turn in itertools.count(1):
        at = p * (1 + 1e-8 * turn)
        start = time.process_time()
        np.asarray(call(at))
        found.append(time.process_time() - start)
        if turn >= least and time.process_time() - began > most:
            break
    return min(found)


def table(tolerances=(1e-4, 1e-6, 1e-8), names=tuple(PROBLEMS), whose=tuple(CONTENDERS), gradients=True):
    """Yield the problem, the tolerance, the contender, its error, and the times of solution and gradient."""
    for name in names:
        f, span, y0, p, size = PROBLEMS[name]
        exact = si.solve_ivp(f, span, y0, "Radau", args=(p,), rtol=1e-12, atol=1e-12 * size).y[:, -1]
        for who, tol in itertools.product(whose, tolerances):
            try:
                call, gradient = CONTENDERS[who](f, span, y0, {"rtol": tol, "atol": tol * size})
            except ImportError:
                continue
            error = np.max(abs(np.asarray(call(p)) - exact) / (abs(exact) + size))
            try:
                slope = (gradient(p), clock(gradient, p))[1] if gradient and gradients else None
            except Exception:
                slope = None  # a solver that does not reach the end
            yield name, tol, who, error, clock(call, p), slope


def dae_table(tolerances=(1e-4, 1e-6, 1e-8)):
    """Yield the same of differential-algebraic equations."""
    contenders = {"dualad Rodas5P": by_dualad("Rodas5P"), "SUNDIALS IDA": by_ida}
    for (name, (f, span, y0, p, size, mass)), tol in itertools.product(DAES.items(), tolerances):
        exact = by_dualad("Rodas5P")(f, span, y0, {"rtol": 1e-11, "atol": 1e-11 * size, "mass": mass})[0](p)
        for who, make in contenders.items():
            try:
                call, gradient = make(f, span, y0, {"rtol": tol, "atol": tol * size, "mass": mass})
                error = np.max(abs(call(p) - exact) / (abs(exact) + size))
            except ImportError:
                continue
            slope = (gradient(p), clock(gradient, p))[1] if gradient else None
            yield f"{name} DAE", tol, who, error, clock(call, p), slope


def draw(path):
    """Draw the error of each problem's end over the time that it took, for tolerances from 1e-3 to 1e-10."""
    plt = importlib.import_module("matplotlib.pyplot")
    grey = dict.fromkeys(("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color"), "#888888")
    plt.rcParams |= grey | {"svg.fonttype": "none", "svg.hashsalt": "dualad", "axes.facecolor": "none"}
    whose = tuple(CONTENDERS)[:5]
    figure, panels = plt.subplots(2, 3, figsize=(8, 4.6), sharey=True, layout="constrained")
    for name, panel in zip(PROBLEMS, panels.flat, strict=True):
        rows = list(table(10.0 ** -np.arange(3, 11), (name,), whose, gradients=False))
        for who in whose:
            points = [(seconds * 1e3, error) for _, _, w, error, seconds, _ in rows if w == who and error < 1]
            panel.loglog(*zip(*points, strict=True), ".-", label=who)
        panel.set_title(name, fontsize="medium", color="#888888")
    figure.supxlabel("ms", color="#888888", fontsize="medium")
    figure.supylabel("error at the end", color="#888888", fontsize="medium")
    figure.legend(*panels[0, 0].get_legend_handles_labels(), loc="outside upper center", ncols=3, frameon=False)
    figure.savefig(path, transparent=True, metadata={"Date": None})


if __name__ == "__main__":
    if len(sys.argv) > 1:
        draw(sys.argv[1])
        sys.exit()
    for name, tol, who, error, seconds, slope in itertools.chain(table(), dae_table()):
        last = "" if slope is None else f"{slope * 1e6:12,.0f} µs gradient"
        print(f"{name:13} {tol:7.0e}  {who:18} error {error:7.1e} {seconds * 1e6:12,.0f} µs{last}", flush=True)
