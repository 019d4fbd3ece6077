"""Effective draws per second: nutpie on our compiled gradients beside NumPyro, on eight schools and on an ODE.

``python -m benchmarks.samplers`` prints, for each, the smallest effective sample size of the parameters over seconds of
processor time, with what was compiled and without; and that the means agree. It wants nutpie, NumPyro and arviz.
"""

import time
from collections.abc import Iterator

import numpy as np

import dualad as da
from dualad.scipy.integrate import solve_ivp

__all__ = ["ecosystem", "schools", "table"]

EFFECTS = np.array([28.0, 8, -3, 7, -1, 1, 18, 12])
ERRORS = np.array([15.0, 10, 16, 11, 9, 11, 10, 18])
HARE = [30.0, 47.2, 70.2, 77.4, 36.3, 20.6, 18.1, 21.4, 22.0, 25.4, 27.1, 40.3, 57.0, 76.6, 52.3, 19.5, 11.2, 7.6, 14.6]
HARE += [16.2, 24.7]
LYNX = [4.0, 6.1, 9.8, 35.2, 59.4, 41.7, 19.0, 13.0, 8.3, 9.1, 7.4, 8.0, 12.3, 19.5, 45.7, 51.1, 29.7, 15.8, 9.7, 10.1]
LYNX += [8.6]
SEEN, YEARS = np.log([HARE, LYNX]), np.arange(21.0)
CENTRE, WIDTH = np.array([1.0, 0.05, 1.0, 0.05]), np.array([0.5, 0.05, 0.5, 0.05])
START = np.log([0.55, 0.028, 0.8, 0.024, 33.0, 6.0, 0.25, 0.25])
WARM, DRAWS, CHAINS = 500, 1000, 4


def schools(np, q):
    mu, log_tau, z = q[0], q[1], q[2:]
    tau = np.exp(log_tau)
    residual = (EFFECTS - mu - tau * z) / ERRORS
    return -0.5 * ((mu / 5) ** 2 + z @ z + residual @ residual) + log_tau - np.log1p((tau / 5) ** 2)


def _slope(np, y, q):
    rates = np.exp(q[:4])
    return np.stack([(rates[0] - rates[1] * y[1]) * y[0], (rates[3] * y[0] - rates[2]) * y[1]])


def _our_path(q):
    return solve_ivp(
        lambda t, y: _slope(np, y, q), (0.0, 20.0), np.exp(q[4:6]), t_eval=YEARS, rtol=1e-6, solver="native",
        max_steps=10_000, require_success=False,
    ).y  # fmt: skip


def _jax_path(q):
    import jax.numpy as jnp
    from jax.experimental.ode import odeint

    return odeint(lambda y, t: _slope(jnp, y, q), jnp.exp(q[4:6]), jnp.asarray(YEARS), rtol=1e-6, mxstep=10_000).T


def ecosystem(np, q):
    """Lotka and Volterra's equations with lognormal errors, as Carpenter has them for Stan."""
    y = (_our_path if np is globals()["np"] else _jax_path)(q)
    alive = np.all(y > 0)
    rates, others = (np.exp(q[:4]) - CENTRE) / WIDTH, np.concatenate([q[4:6] - np.log(10.0), q[6:] + 1.0])
    errors = (SEEN - np.log(np.where(alive, y, 1.0))) / np.exp(q[6:, None])
    total = np.sum(q[:4]) - 0.5 * (rates @ rates + others @ others + np.sum(errors**2)) - 21 * np.sum(q[6:])
    return np.where(alive, total, -np.inf)


def _with_nutpie(density, start):
    import nutpie
    from nutpie.compiled_pyfunc import from_pyfunc

    code = da.jit(da.value_and_grad(lambda q: density(np, q)))
    begun = time.process_time()
    code(start)
    compiled = time.process_time() - begun
    model = from_pyfunc(
        len(start), lambda: code, lambda *seeds: lambda q: {"q": q}, [np.dtype(float)], [start.shape], ["q"],
        make_initial_point_fn=lambda seed: start + 0.1 * np.random.default_rng(seed).normal(size=len(start)),
    )  # fmt: skip
    begun = time.process_time()
    trace = nutpie.sample(model, chains=CHAINS, cores=1, tune=WARM, draws=DRAWS, seed=1, progress_bar=False)
    return np.asarray(trace.posterior["q"]), compiled, time.process_time() - begun


def _with_numpyro(density, start):
    import jax
    from numpyro.infer import MCMC, NUTS

    jax.config.update("jax_enable_x64", True)
    kernel = NUTS(potential_fn=lambda q: -density(jax.numpy, q))
    run = MCMC(kernel, num_warmup=WARM, num_samples=DRAWS, num_chains=CHAINS, chain_method="sequential",
               progress_bar=False, jit_model_args=True)  # fmt: skip
    starts = start + 0.1 * np.random.default_rng(1).normal(size=(CHAINS, len(start)))
    begun = time.process_time()
    run.warmup(jax.random.key(0), init_params=jax.numpy.asarray(starts))
    run.run(jax.random.key(1))
    both = time.process_time() - begun
    begun = time.process_time()
    run.run(jax.random.key(2))
    again = time.process_time() - begun
    return np.asarray(run.get_samples(group_by_chain=True)), both - again, again * (WARM + DRAWS) / DRAWS


def table() -> Iterator[str]:
    """Yield rows: seconds to compile, to sample, and effective draws per second, with the means of two parameters."""
    import arviz

    yield f"{'model':10} {'sampler':10} {'compile s':>10} {'sample s':>10} {'ESS':>7} {'ESS/s':>8}  means"
    for density, start in ((schools, np.zeros(10)), (ecosystem, START)):
        for name, run in (("nutpie", _with_nutpie), ("NumPyro", _with_numpyro)):
            draws, compiled, sampled = run(density, start)
            ess = float(arviz.ess(arviz.convert_to_dataset(draws)).x.min())
            means = ", ".join([f"{m:.3f}" for m in np.mean(draws, axis=(0, 1))[:2]])
            row = f"{density.__name__:10} {name:10} {compiled:10.2f} {sampled:10.2f} {ess:7.0f} {ess / sampled:8.0f}"
            yield f"{row}  {means}"


if __name__ == "__main__":
    for line in table():
        print(line, flush=True)
