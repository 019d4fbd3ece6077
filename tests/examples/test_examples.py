"""The examples are real: each is run as a user would, and its answer is held against the physics or the textbook."""

import contextlib
import functools
import importlib.util
import io
import itertools
from pathlib import Path

import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import norm

FOLDER = Path(__file__).parents[2] / "examples"
FILES = sorted(FOLDER.glob("*.py"))


@functools.cache
def load(name):
    spec = importlib.util.spec_from_file_location(f"example_{name}", FOLDER / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@functools.cache
def run_and_listen(name):
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        result = load(name).main()
    return result, printed.getvalue()


def run(name):
    return run_and_listen(name)[0]


def test_all_are_here():
    assert [file.stem for file in FILES] == [
        "cluster",
        "curve_fit",
        "interval_arithmetic",
        "logistic_newton",
        "option_greeks",
        "robertson",
        "robot_arm",
    ]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_short_told_and_plain(file):
    text = file.read_text(encoding="utf-8")
    assert len(text.splitlines()) < 80
    assert load(file.stem).__doc__.count("\n") >= 5
    assert "Look at" in load(file.stem).__doc__
    assert "import numpy as np\n" in text
    assert "jax" not in text
    assert "dualad.numpy" not in text


#: a cluster takes its time to start
RUN = [pytest.param(file, marks=[pytest.mark.full] if file.stem == "cluster" else []) for file in FILES]


@pytest.mark.parametrize("file", RUN, ids=lambda file: file.stem)
def test_prints_a_result(file):
    lines = run_and_listen(file.stem)[1].splitlines()
    assert 3 <= len(lines) <= 25
    assert max(map(len, lines)) <= 120
    assert "nan" not in "\n".join(lines)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_declared_points_evaluate_to_finite_numbers(file):
    module = load(file.stem)
    assert module.__dualad__
    for name, points in module.__dualad__.items():
        points = points() if callable(points) else points
        assert points
        for point in points:
            assert np.all(np.isfinite(getattr(module, name)(*point)))


@pytest.mark.full
@pytest.mark.filterwarnings("ignore")
def test_a_cluster_that_loses_a_worker_computes_what_one_process_does():
    pytest.importorskip("distributed", reason="a cluster: pip install dualad[scale]")
    result, example = run("cluster"), load("cluster")
    assert result["same"] and result["ends"].shape == (48, 2, 4)
    np.testing.assert_allclose(result["value"], result["whole"][0], rtol=1e-13)
    np.testing.assert_allclose(result["gradient"], result["whole"][1], rtol=1e-11, atol=1e-14)
    # The conserved quantity of Lotka and Volterra, before and after.
    a, b, c, d = example.RATES
    energy = lambda y: c * y[0] - d * np.log(y[0]) + b * y[1] - a * np.log(y[1])
    np.testing.assert_allclose(energy(example.end(example.RATES)), energy(example.START), rtol=1e-6)


def test_arm_reaches_the_pose_quadratically():
    result = run("robot_arm")
    np.testing.assert_allclose(load("robot_arm").forward(result["q"]), result["target"], atol=1e-12)
    residuals = result["residuals"]
    assert residuals[-1] < 1e-12
    assert len(residuals) <= 8
    late = [(a, b) for a, b in itertools.pairwise(residuals) if 1e-7 < a < 1e-1]
    assert len(late) >= 2
    for a, b in late:
        assert b < 2 * a**2


def test_arm_kinematics_are_a_rigid_motion_of_known_reach():
    arm = load("robot_arm")
    pose = arm.forward(arm.GOAL)
    np.testing.assert_allclose(pose[:3, :3] @ pose[:3, :3].T, np.eye(3), atol=1e-14)
    np.testing.assert_allclose(np.linalg.det(pose[:3, :3]), 1.0, atol=1e-14)
    # Stretched out along -x, the published link lengths add up.
    np.testing.assert_allclose(arm.forward(np.zeros(6))[:3, 3], [-0.81725, -0.19145, -0.005491], atol=1e-12)


def test_greeks_equal_their_closed_forms():
    result, example = run("option_greeks"), load("option_greeks")
    strike, years, vol = result["strikes"], result["years"], result["vols"]
    spot, rate = example.SPOT, example.RATE
    assert strike.shape == (28,)
    spread = vol * np.sqrt(years)
    d1 = (np.log(spot / strike) + (rate + vol**2 / 2) * years) / spread
    d2, discount = d1 - spread, np.exp(-rate * years)
    expected = {
        "value": spot * norm.cdf(d1) - strike * discount * norm.cdf(d2),
        "delta": norm.cdf(d1),
        "theta": -spot * norm.pdf(d1) * vol / (2 * np.sqrt(years)) - rate * strike * discount * norm.cdf(d2),
        "rho": strike * years * discount * norm.cdf(d2),
        "vega": spot * norm.pdf(d1) * np.sqrt(years),
        "gamma": norm.pdf(d1) / (spot * spread),
        "vanna": -norm.pdf(d1) * d2 / vol,
    }
    for name, column in expected.items():
        np.testing.assert_allclose(result[name], column, rtol=1e-10, atol=1e-12, err_msg=name)


def test_robertson_agrees_with_published_solutions():
    result, times = run("robertson"), load("robertson").TIMES
    assert result["success"]
    y = dict(zip(times.tolist(), result["y"].T, strict=True))
    np.testing.assert_allclose(result["y"].sum(axis=0), 1.0, atol=1e-13)
    # Printed to ten digits in several stiff solvers' test suites.
    np.testing.assert_allclose(y[40.0], [0.7158270687194, 9.185534764558e-6, 0.2841637457458], rtol=1e-7)
    # The output printed in the header of ODEPACK's DLSODE, whose tolerance there is 1e-4.
    np.testing.assert_allclose(y[0.4], [9.851726e-01, 3.386406e-05, 1.479357e-02], rtol=1e-4)
    np.testing.assert_allclose(y[4e4], [3.897016e-02, 1.621193e-07, 9.610297e-01], rtol=1e-3)
    # The reference solution of SUNDIALS' cvRoberts_dns at its last time.
    reference = [5.2083495894337328e-08, 2.0833399429795671e-13, 9.9999994791629776e-01]
    np.testing.assert_allclose(y[4e10], reference, rtol=1e-5)


def test_newton_reaches_a_stationary_minimum():
    result = run("logistic_newton")
    X, y, w, norms = result["X"], result["y"], result["w"], result["norms"]
    assert X.shape == (569, 31)
    assert norms[0] > 1.0
    assert norms[-1] < 1e-14
    assert len(norms) <= 12
    # The first-order condition, written by hand: the ridge balances the residuals' pull.
    by_hand = load("logistic_newton").RIDGE * w - X.T @ (y * expit(-y * (X @ w))) / len(y)
    np.testing.assert_allclose(by_hand, 0.0, atol=1e-14)
    # And the minimum is one: the Hessian written by hand is positive definite.
    p = expit(X @ w)
    hessian = (X.T * (p * (1 - p))) @ X / len(y) + load("logistic_newton").RIDGE * np.eye(31)
    assert np.linalg.eigvalsh(hessian).min() > 1e-3
    assert result["accuracy"] > 0.98


def test_fit_finds_the_true_parameters_within_its_errors():
    result, example = run("curve_fit"), load("curve_fit")
    fit, errors = result["fit"], result["errors"]
    assert fit.success
    assert np.all(np.abs(fit.x - example.TRUTH) < 3 * errors)
    assert np.all(errors < 0.03)
    # 200 residuals in units of the noise, six parameters: chi squared is 194 give or take 20.
    assert 134 < 2 * fit.cost < 254
    p, t = fit.x, example.measure()[0]
    decay, phase = np.exp(-p[1] * t), p[2] * t + p[3]
    wave, turn = decay * np.cos(phase), -p[0] * decay * np.sin(phase)
    by_hand = np.column_stack([wave, -p[0] * t * wave, t * turn, turn, np.ones_like(t), t]) / example.NOISE
    np.testing.assert_allclose(fit.jac, by_hand, rtol=1e-11, atol=1e-11)
    assert result["calls"]["exact Jacobian"] < result["calls"]["differences"] / 5
