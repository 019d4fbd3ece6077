"""Optimal control and other large constrained problems by Ipopt: dualad's callbacks beside CasADi's, SX and MX.

``python -m benchmarks.control [NAME ...]`` solves each problem from the same start with both, by turns, compares the
solutions, and prints CPU seconds: before the first iteration, the first time and later, in evaluations of functions and
derivatives, and Ipopt's own; and medians of the ratios to the quicker of SX and MX in each turn. A problem is written
once, on vectors, in names that NumPy and CasADi both have (`Symbols`). Wants cyipopt and casadi; power flow wants
pypower, whose cases it reads. Not for: derivatives of answers (`optima.py`).
"""

import importlib
import itertools
import sys
import time
from types import SimpleNamespace

import numpy as np
import scipy.sparse as ss

from dualad.scipy import optimize
from dualad.scipy.optimize import ipopt, ipopt_in_c

__all__ = ["PROBLEMS", "by_casadi", "by_dualad"]

_NUMPY = SimpleNamespace(
    sin=np.sin, cos=np.cos, sqrt=np.sqrt, concatenate=np.concatenate, sum=np.sum, take=lambda v, i: v[i],
    product=lambda A, v: A @ v,
)  # fmt: skip


class Symbols:
    """NumPy's names for vectors of CasADi's."""

    def __init__(self):
        self.casadi = importlib.import_module("casadi")
        for name in ("sin", "cos", "sqrt"):
            setattr(self, name, getattr(self.casadi, name))

    def concatenate(self, parts):
        return self.casadi.vertcat(*parts)

    def sum(self, v):
        return self.casadi.sum1(v)

    def take(self, v, i):
        return v[np.asarray(i).tolist()]

    def product(self, A, v):
        return self.casadi.DM(ss.csc_matrix(A)) @ v


def parts_of(z, *sizes):
    """Cut a vector into pieces."""
    ends = np.cumsum((0, *sizes)).tolist()
    return [z[a:b] for a, b in itertools.pairwise(ends)]


def _problem(objective, held, low, high, start, limits=(0.0, 0.0)):
    return SimpleNamespace(objective=objective, held=held, low=low, high=high, start=start, limits=limits)


# ── problems ─────────────────────────────────────────────────────────────────────────────────────────────────────


def beam(xp, n=3333):
    """clnlbeam of Maurer and Mittelmann: a nonlinear beam that is clamped, 3 n + 3 unknowns."""
    h, alpha = 1.0 / n, 50.0

    def objective(z):
        t, _, u = parts_of(z, n + 1, n + 1, n + 1)
        return xp.sum(0.5 * h * (u[1:] ** 2 + u[:-1] ** 2) + 0.5 * alpha * h * (xp.cos(t[1:]) + xp.cos(t[:-1])))

    def held(z):
        t, x, u = parts_of(z, n + 1, n + 1, n + 1)
        return xp.concatenate(
            (x[1:] - x[:-1] - 0.5 * h * (xp.sin(t[1:]) + xp.sin(t[:-1])), t[1:] - t[:-1] - 0.5 * h * (u[1:] + u[:-1]))
        )

    high = np.concatenate([np.full(n + 1, 1.0), np.full(n + 1, 0.05), np.full(n + 1, np.inf)])
    low = -high
    for k in (n + 1, 2 * n + 1):
        low[k] = high[k] = 0.0
    wave = 0.05 * np.cos(np.arange(n + 1) * h)
    return _problem(objective, held, low, high, np.concatenate([wave, wave, np.full(n + 1, 0.01)]))


def oscillator(xp, n=20, seconds=10.0, substeps=4):
    """Van der Pol's oscillator brought to rest at least cost, by direct multiple shooting."""
    h = seconds / n / substeps

    def rates(x, y, u):
        return (1 - y**2) * x - y + u, x, x**2 + y**2 + u**2

    def ends(z):
        x, y, u = parts_of(z, n + 1, n + 1, n)
        s = [x[:-1], y[:-1], 0.0 * u]
        move = lambda by, slopes: [a + by * b for a, b in zip(s, slopes, strict=True)]
        for _ in range(substeps):
            a = rates(*s[:2], u)
            b = rates(*move(h / 2, a)[:2], u)
            c = rates(*move(h / 2, b)[:2], u)
            d = rates(*move(h, c)[:2], u)
            s = move(h / 6, [i + 2 * j + 2 * k + m for i, j, k, m in zip(a, b, c, d, strict=True)])
        return s, x, y

    def held(z):
        s, x, y = ends(z)
        return xp.concatenate((s[0] - x[1:], s[1] - y[1:]))

    low = np.concatenate([np.full(n + 1, -0.25), np.full(n + 1, -np.inf), np.full(n, -1.0)])
    high = np.concatenate([np.full(2 * n + 2, np.inf), np.full(n, 1.0)])
    start = np.zeros(3 * n + 2)
    low[0] = high[0] = 0.0
    low[n + 1] = high[n + 1] = start[n + 1] = 1.0
    return _problem(lambda z: xp.sum(ends(z)[0][2]), held, low, high, start)


def brachistochrone(xp, n=2000):
    """The fastest slide from (0, 0) to (1, -1), straight between n + 1 heights."""
    h = 1.0 / n
    whole = lambda y: xp.concatenate((np.zeros(1), y, -np.ones(1)))

    def objective(y):
        y = whole(y)
        return xp.sum(xp.sqrt(h**2 + (y[1:] - y[:-1]) ** 2) * 2.0 / (xp.sqrt(-y[1:]) + xp.sqrt(1e-12 - y[:-1])))

    inner = np.arange(1, n) * h
    return _problem(objective, None, np.full(n - 1, -3.0), np.full(n - 1, -1e-6), -inner)


def adjustment(xp, cameras=10, points=300, observations=1500):
    """Bundle adjustment with bounds: points seen by cameras that turn, move and have a focal length."""
    rng = np.random.default_rng(0)
    i = rng.integers(0, cameras, observations)
    j = np.concatenate([np.arange(points), rng.integers(0, points, observations - points)])
    make = lambda spread: np.concatenate(
        [spread * 0.2 * rng.normal(size=5 * cameras), np.full(cameras, 5.0), np.full(cameras, 1.0),
         spread * rng.normal(size=3 * points)]
    )  # fmt: skip
    truth = make(1.0)

    def image(xp, z):
        a, b, c, x, y, depth, focus, p, q, r = parts_of(z, *[cameras] * 7, *[points] * 3)
        a, b, c, x, y, depth, focus = [xp.take(v, i) for v in (a, b, c, x, y, depth, focus)]
        p, q, r = [xp.take(v, j) for v in (p, q, r)]
        p, q = xp.cos(a) * p - xp.sin(a) * q, xp.sin(a) * p + xp.cos(a) * q
        p, r = xp.cos(b) * p - xp.sin(b) * r, xp.sin(b) * p + xp.cos(b) * r
        q, r = xp.cos(c) * q - xp.sin(c) * r, xp.sin(c) * q + xp.cos(c) * r
        return focus * (p + x) / (r + depth), focus * (q + y) / (r + depth)

    seen = [v + 1e-3 * rng.normal(size=observations) for v in image(_NUMPY, truth)]

    def objective(z):
        u, v = image(xp, z)
        return xp.sum((u - seen[0]) ** 2 + (v - seen[1]) ** 2) + 1e-6 * xp.sum((z - truth) ** 2)

    n = len(truth)
    low, high = truth - 0.5, truth + 0.5
    low[:7], high[:7] = truth[:7], truth[:7]
    return _problem(objective, None, low, high, np.clip(truth + 0.02 * rng.normal(size=n), low, high))


def race_car(xp, n=200, degree=3):
    """A lap in least time: x'' = u − x', where the track limits the speed, by collocation at Legendre's points."""
    points = 0.5 + 0.5 * np.polynomial.legendre.leggauss(degree)[0]
    nodes = np.concatenate([[0.0], points])
    basis = [
        np.poly1d(np.poly(np.delete(nodes, k)) / np.prod(nodes[k] - np.delete(nodes, k))) for k in range(degree + 1)
    ]
    slopes = np.array([[np.polyder(b)(t) for t in points] for b in basis])
    ends = np.array([b(1.0) for b in basis])
    inside = [n] * degree

    def split(z):
        x, v, u, T, *more = parts_of(z, n + 1, n + 1, n, 1, *inside, *inside)
        return x, v, u, T, [x[:-1], *more[:degree]], [v[:-1], *more[degree:]]

    def held(z):
        x, v, u, T, xs, vs = split(z)
        h, found = T / n, []
        for k in range(degree):
            found.append(sum([slopes[i, k] * a for i, a in enumerate(xs)]) - h * vs[k + 1])
            found.append(sum([slopes[i, k] * a for i, a in enumerate(vs)]) - h * (u - vs[k + 1]))
        for all_of, a in ((xs, x), (vs, v)):
            found.append(sum([ends[i] * b for i, b in enumerate(all_of)]) - a[1:])
        return xp.concatenate((*found, v + 0.5 * xp.sin(2 * np.pi * x)))

    s, moves = np.linspace(0, 1, n + 1), 2 * degree * n + 2 * n
    start = np.concatenate([s, np.ones(n + 1), np.full(n, 0.5), [1.0], *[s[:-1]] * degree, *[np.ones(n)] * degree])
    low, high = np.full(len(start), -np.inf), np.full(len(start), np.inf)
    low[0] = high[0] = low[n + 1] = high[n + 1] = 0.0
    low[n] = high[n] = 1.0
    low[2 * n + 2 : 3 * n + 2], high[2 * n + 2 : 3 * n + 2] = 0.0, 1.0
    low[3 * n + 2] = 0.1
    limits = (
        np.concatenate([np.zeros(moves), np.full(n + 1, -np.inf)]),
        np.concatenate([np.zeros(moves), np.ones(n + 1)]),
    )
    return _problem(lambda z: xp.sum(split(z)[3]), held, low, high, start, limits)


def chain(xp, n=40, masses=5, seconds=4.0):
    """Masses between springs, hung up at one end: the other end is moved so that all come to rest."""
    m, D, L, g, h = 0.03, 1.0, 0.033 * 9 / (masses + 1), 9.81, seconds / n
    count = 2 * masses
    rest = _hanging(masses, m, D, L, g)

    def split(z):
        more = parts_of(z, *[n + 1] * (2 * count + 2), n, n)
        p, v, end, u = more[:count], more[count : 2 * count], more[2 * count : 2 * count + 2], more[-2:]
        return p, v, end, u

    def rates(p, end):
        """Accelerations of all masses: those along x, then those along y."""
        x, y = [0.0 * end[0], *p[:masses], end[0]], [0.0 * end[1], *p[masses:], end[1]]
        pulls = []
        for k in range(masses + 1):
            dx, dy = x[k + 1] - x[k], y[k + 1] - y[k]
            force = D / m * (1 - L / xp.sqrt(dx**2 + dy**2))
            pulls.append((force * dx, force * dy))
        along = lambda axis, weight: [pulls[k + 1][axis] - pulls[k][axis] - weight for k in range(masses)]
        return along(0, 0.0) + along(1, g)

    def held(z):
        p, v, end, u = split(z)
        found = []
        for rate, a in ((v, p), (rates(p, end), v)):
            found += [b[1:] - b[:-1] - 0.5 * h * (r[1:] + r[:-1]) for r, b in zip(rate, a, strict=True)]
        found += [b[1:] - b[:-1] - h * w for w, b in zip(u, end, strict=True)]
        return xp.concatenate(found)

    def objective(z):
        _, v, end, u = split(z)
        out = 25.0 * (xp.sum((end[0] - 1.0) ** 2) + xp.sum(end[1] ** 2))
        return h * (out + sum([xp.sum(w**2) for w in v]) + 0.01 * sum([xp.sum(w**2) for w in u]))

    first = np.concatenate([rest, np.zeros(count), [0.8, 0.3]])
    low, high = np.full((len(first), n + 1), -np.inf), np.full((len(first), n + 1), np.inf)
    low[:, 0] = high[:, 0] = first
    start = np.concatenate([np.repeat(first, n + 1), np.zeros(2 * n)])
    box = lambda a, side: np.concatenate([a.ravel(), np.full(2 * n, side)])
    return _problem(objective, held, box(low, -1.0), box(high, 1.0), start)


def _hanging(masses, m, D, L, g):
    """Return where the masses hang at rest when the end is at (1, 0)."""

    def energy(p):
        x, y = (np.concatenate([[0.0], part, [end]]) for part, end in ((p[:masses], 1.0), (p[masses:], 0.0)))
        length = np.sqrt(np.diff(x) ** 2 + np.diff(y) ** 2)
        return 0.5 * D * np.sum((length - L) ** 2) + m * g * np.sum(p[masses:])

    start = np.concatenate([np.linspace(0, 1, masses + 2)[1:-1], np.full(masses, -0.3)])
    return optimize.minimize(energy, start, jac="dualad", method="BFGS", options={"gtol": 1e-9}).x


def power_flow(xp, case="case118"):
    """AC optimal power flow in polar coordinates, of a case of MATPOWER's."""
    data = getattr(importlib.import_module(f"pypower.{case}"), case)()
    base, bus, gen, lines = data["baseMVA"], data["bus"], data["gen"], data["branch"]
    gen, cost, lines = gen[gen[:, 7] > 0], data["gencost"][: len(gen)][gen[:, 7] > 0], lines[lines[:, 10] > 0]
    number = {int(b): k for k, b in enumerate(bus[:, 0])}
    at = lambda column: np.array([number[int(b)] for b in column])
    f, t, home = at(lines[:, 0]), at(lines[:, 1]), at(gen[:, 0])
    n, k = len(bus), len(gen)
    ratio, shift = np.where(lines[:, 8] == 0, 1.0, lines[:, 8]), np.deg2rad(lines[:, 9])
    y = 1 / (lines[:, 2] + 1j * lines[:, 3])
    yff, ytt = (y + 0.5j * lines[:, 4]) / ratio**2, y + 0.5j * lines[:, 4]
    yft, ytf = -y / (ratio * np.exp(-1j * shift)), -y / (ratio * np.exp(1j * shift))
    into = lambda rows: ss.csr_array((np.ones(len(rows)), (rows, np.arange(len(rows)))), shape=(n, len(rows)))
    Cf, Ct, Cg = into(f), into(t), into(home)

    def flows(V, a):
        vf, vt, d = xp.take(V, f), xp.take(V, t), xp.take(a, f) - xp.take(a, t)
        c, s, both = xp.cos(d), xp.sin(d), vf * vt
        return (
            yff.real * vf**2 + both * (yft.real * c + yft.imag * s),
            -yff.imag * vf**2 + both * (yft.real * s - yft.imag * c),
            ytt.real * vt**2 + both * (ytf.real * c - ytf.imag * s),
            -ytt.imag * vt**2 - both * (ytf.real * s + ytf.imag * c),
        )

    limited = np.flatnonzero(lines[:, 5] > 0)

    def held(z):
        a, V, P, Q = parts_of(z, n, n, k, k)
        pf, qf, pt, qt = flows(V, a)
        real = xp.product(Cg, P) - bus[:, 2] / base - bus[:, 4] / base * V**2 - xp.product(Cf, pf) - xp.product(Ct, pt)
        other = xp.product(Cg, Q) - bus[:, 3] / base + bus[:, 5] / base * V**2 - xp.product(Cf, qf) - xp.product(Ct, qt)
        found = [real, other]
        if len(limited):
            found += [xp.take(p, limited) ** 2 + xp.take(q, limited) ** 2 for p, q in ((pf, qf), (pt, qt))]
        return xp.concatenate(found)

    c2, c1, c0 = cost[:, 4], cost[:, 5], cost[:, 6]

    def objective(z):
        P = base * parts_of(z, n, n, k, k)[2]
        return xp.sum(c2 * P**2 + c1 * P) + float(c0.sum())

    reference = bus[:, 1] == 3
    low = np.concatenate([np.where(reference, 0, -np.inf), bus[:, 12], gen[:, 9] / base, gen[:, 4] / base])
    high = np.concatenate([np.where(reference, 0, np.inf), bus[:, 11], gen[:, 8] / base, gen[:, 3] / base])
    middle = lambda a: 0.5 * (low[a] + high[a])
    start = np.concatenate([np.zeros(n), np.ones(n), middle(slice(2 * n, 2 * n + k)), middle(slice(2 * n + k, None))])
    top = np.concatenate([np.zeros(2 * n), *[(lines[limited, 5] / base) ** 2] * 2])
    bottom = np.where(np.arange(len(top)) < 2 * n, 0.0, -np.inf)
    return _problem(objective, held, low, high, start, (bottom, top))


PROBLEMS = {
    "clnlbeam": beam,
    "van der Pol": oscillator,
    "brachistochrone": brachistochrone,
    "bundle adjustment": adjustment,
    "race car": race_car,
    "chain of masses": chain,
    "power flow 9": lambda xp: power_flow(xp, "case9"),
    "power flow 14": lambda xp: power_flow(xp, "case14"),
    "power flow 118": power_flow,
}

# ── solvers ──────────────────────────────────────────────────────────────────────────────────────────────────────

#: solves that are compared, behind the first
_ROUNDS = 9
_OPTIONS = {"tol": 1e-9, "max_iter": 500}


class _Watched(ipopt_in_c.InC):
    """Ipopt's problem, with the time that its callbacks take by the clock that CasADi reads as well."""

    def __init__(self, *args, **given):
        _Watched.last, self.begun = self, time.process_time()
        super().__init__(*args, **given)
        for f in self.fillers.values():
            f.seconds = 0.0

    @property
    def spent(self):
        return sum([f.seconds for f in self.fillers.values()])


def by_dualad(make, times=2):
    """Yield the solutions of a problem: of each x, its value, and CPU seconds before the iterations, in evaluations and
    in Ipopt.
    """
    p = make(_NUMPY)
    held = () if p.held is None else optimize.NonlinearConstraint(p.held, *p.limits)
    box = optimize.Bounds(p.low, p.high)
    real, ipopt.InC = ipopt.InC, _Watched
    try:
        for _ in range(times):
            start = time.process_time()
            out = optimize.minimize(
                p.objective, p.start, method="ipopt", bounds=box, constraints=held, options={**_OPTIONS}
            )
            end, it = time.process_time(), _Watched.last
            yield SimpleNamespace(
                x=out.x, value=out.fun, steps=out.nit, first=it.begun - start, evaluations=it.spent,
                own=end - it.begun - it.spent, success=out.success,
            )  # fmt: skip
    finally:
        ipopt.InC = real


def by_casadi(make, kind, times=1):
    """The same by CasADi's ``"SX"`` or ``"MX"``."""
    xp = Symbols()
    casadi = xp.casadi
    p = make(xp)
    start = time.process_time()
    z = getattr(casadi, kind).sym("z", len(p.start))
    problem = {"x": z, "f": p.objective(z)} | ({} if p.held is None else {"g": p.held(z)})
    options = {"ipopt": {**_OPTIONS, "print_level": 0, "sb": "yes"}, "print_time": False}
    solver = casadi.nlpsol("solver", "ipopt", problem, options)
    given = {} if p.held is None else {"lbg": p.limits[0], "ubg": p.limits[1]}
    first = time.process_time() - start
    for _ in range(times):
        begun = time.process_time()
        out = solver(x0=p.start, lbx=p.low, ubx=p.high, **given)
        end = time.process_time()
        stats = solver.stats()
        spent = sum([v for k, v in stats.items() if k.startswith("t_proc_nlp_")])
        yield SimpleNamespace(
            x=np.asarray(out["x"]).ravel(), value=float(out["f"]), steps=stats["iter_count"], first=first,
            evaluations=spent, own=end - begun - spent, success=stats["success"],
        )  # fmt: skip


def main(names):
    columns = {"steps": 6, "first": 9, "again": 9, "evaluations": 13, "Ipopt": 9, "distance": 10}
    print(f"{'CPU seconds, medians':<30}" + "".join([name.rjust(width) for name, width in columns.items()]))
    for name in names or PROBLEMS:
        make = PROBLEMS[name]
        runs = {"dualad": by_dualad(make, _ROUNDS + 1)}
        runs |= {f"CasADi {kind}": by_casadi(make, kind, _ROUNDS + 1) for kind in ("SX", "MX")}
        rounds = list(zip(*runs.values(), strict=True))  # by turns
        x = rounds[0][0].x
        print(f"{name}, {len(x)} unknowns")
        for k, who in enumerate(runs):
            one, *more = [r[k] for r in rounds]
            far = max([np.max(abs(r.x - x)) for r in more]) / max(1.0, np.max(abs(x)))
            middle = lambda what, more=more: np.median([getattr(r, what) for r in more])
            print(
                f"  {who:<28}{one.steps:>6}{one.first:>9.3f}{middle('first'):>9.3f}{middle('evaluations'):>13.5f}"
                f"{middle('own'):>9.3f}{far:>10.0e}   {one.value:.10g}{'' if one.success else '  FAILED'}"
            )
        # The whole with Ipopt's own share of CasADi's builds of MUMPS and BLAS, against CasADi's whole.
        ratios = []
        for ours, *theirs in rounds[1:]:
            best, own = min([r.evaluations for r in theirs]), min([r.own for r in theirs])
            ratios.append((ours.evaluations / best, (ours.first + ours.evaluations + own) / (best + own)))
        print("  ratios: evaluations {:.2f}, whole solve {:.2f}".format(*np.median(ratios, axis=0)), flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
