"""The models of posteriordb on small data of our own: gradients by `jit` against differences, and Stein's identity."""

import json
import zipfile
from types import SimpleNamespace

import numpy as np
import pytest

import dualad as da
from benchmarks.posteriordb import __main__ as table
from benchmarks.posteriordb import checks, database
from benchmarks.posteriordb.model import model
from dualad.scipy.stats.constraints import positive, real

RNG = np.random.default_rng(11)
SCHOOLS = {"J": 4, "y": [2.0, -1.0, 0.5, 3.0], "sigma": [1.0, 2.0, 1.5, 1.0]}
DATA = {
    "eight_schools_noncentered": SCHOOLS,
    "hmm_gaussian": {"T": 6, "K": 2, "y": [0.1, 0.3, 2.0, 1.8, 0.2, 2.2]},
    "gp_regr": {"N": 5, "x": [0.0, 1.0, 2.5, 3.0, 4.0], "y": [0.3, -0.2, 1.0, 0.4, 0.1]},
    "dogs_nonhierarchical": {"n_dogs": 2, "n_trials": 4, "y": [[1, 0, 1, 0], [1, 1, 0, 0]]},
}


def test_there_is_a_model_for_each_of_120_names():
    assert len(database.models()) == 120


@pytest.mark.parametrize("name", DATA)
def test_gradients_are_those_of_differences(name):
    found = database.models()[name]
    data = SimpleNamespace(**{k: np.array(v) if isinstance(v, list) else v for k, v in DATA[name].items()})
    log_density = found.of(data)
    gradient = da.jit(da.value_and_grad(log_density))
    at = checks.points(gradient, found.center(data))
    assert checks.differences_agree(log_density, gradient, at) < 1e-8
    assert all(np.isclose(gradient(x)[0], log_density(x), rtol=1e-12) for x in at)


@model(lambda d: {"mu": real(), "sigma": positive()})
def gamma_and_normal(d, mu, sigma):
    return -0.5 * mu**2 + 2.0 * np.log(sigma) - sigma


def test_draws_tell_a_density_from_another():
    draws = {"mu": RNG.normal(size=4000), "sigma": RNG.gamma(3.0, size=4000)}
    free = table.free_draws(gamma_and_normal, None, draws)
    right = gamma_and_normal.of(None)
    assert checks.stein_agrees(da.jit(da.value_and_grad(right)), free) < 4.0
    assert checks.stein_agrees(da.jit(da.value_and_grad(lambda x: right(x) - 0.3 * x[1])), free) > 5.0


def _clone(folder):
    """Make a database of one posterior, without draws."""
    root = folder / "posterior_database"
    (root / "posteriors").mkdir(parents=True)
    (root / "data" / "data").mkdir(parents=True)
    entry = {"name": "schools-eight_schools_centered", "model_name": "eight_schools_centered", "data_name": "schools"}
    (root / "posteriors" / "schools.json").write_text(json.dumps(entry))
    with zipfile.ZipFile(root / "data" / "data" / "schools.json.zip", "w") as archive:
        archive.writestr("schools.json", json.dumps(SCHOOLS))
    return folder


def test_the_table_of_a_clone_says_what_is_right(tmp_path, capsys):
    table.main([str(_clone(tmp_path))])
    printed = capsys.readouterr().out
    assert "| schools-eight_schools_centered | 6 | right |" in printed
    assert "1 of 1 right" in printed


def test_a_gradient_that_differs_from_values_is_wrong(tmp_path, monkeypatch):
    posterior = database.posteriors(_clone(tmp_path))[0]
    monkeypatch.setattr(table.checks, "differences_agree", lambda *_: 1.0)
    assert table.row(posterior, database.models())["verdict"] == "wrong by differences"


def test_what_is_not_finite_agrees_with_nothing():
    def stan(x):
        return 1.0, np.full(2, np.nan)

    at = [np.zeros(2), np.ones(2)]
    assert checks.relative([1.0, np.nan], [1.0, 2.0]) == np.inf
    assert not checks.stan_agrees(lambda x: (1.0, np.ones(2)), stan, at) < 1.0


def test_the_same_text_runs_with_jax():
    pytest.importorskip("jax")
    ours, theirs = database.models(), database.with_jax()
    data = SimpleNamespace(**{k: np.array(v) if isinstance(v, list) else v for k, v in SCHOOLS.items()})
    at = RNG.normal(size=6)
    expected = table._jax(theirs["eight_schools_centered"], data)(at)
    found = da.value_and_grad(ours["eight_schools_centered"].of(data))(at)
    assert np.isclose(found[0], expected[0], rtol=1e-13)
    assert np.allclose(found[1], expected[1], rtol=1e-12)
