"""Code that imports autograd, run with dualad in its place."""

from __future__ import annotations

import subprocess
import sys
import types

import numpy as np
import pytest

import dualad.compat.autograd as ag
from dualad.errors import LoadingError

PROGRAM = """
import autograd
import autograd.numpy as np
import autograd.numpy.linalg as la
import autograd.numpy.random as npr
import autograd.scipy.signal
import autograd.scipy.stats.multivariate_normal as mvn
from autograd import grad, numpy as anp, value_and_grad
from autograd.builtins import DictBox, SequenceBox, dict, isinstance, list, tuple
from autograd.differential_operators import make_jvp_reversemode
from autograd.extend import defvjp, primitive, vspace
from autograd.misc import flatten
from autograd.misc.fixed_points import fixed_point
from autograd.misc.flatten import flatten_func
from autograd.misc.optimizers import adam
from autograd.numpy import exp
from autograd.numpy.numpy_boxes import ArrayBox
from autograd.numpy.numpy_vjps import unbroadcast_f
from autograd.scipy.integrate import odeint
from autograd.scipy.linalg import sqrtm
from autograd.scipy.special import gammaln, logsumexp
from autograd.scipy.stats import norm, t
from autograd.test_util import check_grads
from autograd.tracer import getval
from autograd.util import func, subval
from autograd.wrap_util import unary_to_nary

seen = []

def model(p, x):
    seen.append(isinstance(p["w"], ArrayBox))
    rows = np.stack([p["w"] * x[0], np.array([p["b"], p["b"] * 2.0])][i] for i in range(2))
    return logsumexp(rows @ p["w"]) + norm.logpdf(p["b"], 0.0, 2.0) + la.norm(rows)

@primitive
def scaled(x, y):
    return x * y

defvjp(func(scaled), lambda ans, x, y: unbroadcast_f(x, lambda g: g * y))
"""


def test_a_program_runs_unchanged():
    program = types.ModuleType("program")
    with ag.installed():
        exec(PROGRAM, vars(program))
    assert not {"autograd", "autograd.numpy"} & set(sys.modules)
    p, x = {"w": np.array([0.3, 0.8]), "b": 0.4}, np.array([1.5])
    gradient = program.grad(program.model)(p, x)
    assert program.seen == [True]
    for name, change in (("b", 1e-6), ("w", np.array([1e-6, 0.0]))):
        high, low = [program.model(p | {name: p[name] + sign * change}, x) for sign in (1, -1)]
        np.testing.assert_allclose(np.ravel(gradient[name])[0], (high - low) / 2e-6, rtol=1e-7)
    assert program.seen[1:] == [False] * 4
    assert program.grad(lambda x: np.sum(program.scaled(x, np.ones(3))))(2.0) == 3.0
    normal = program.grad(lambda m: program.mvn.logpdf(np.zeros(2), m, np.eye(2)))(np.array([0.5, -1.0]))
    np.testing.assert_allclose(normal, [-0.5, 1.0])
    assert program.subval((1, 2), 0, 5) == (5, 2) and program.npr.RandomState(0).randn(2).shape == (2,)


def test_names_that_autograd_has_not_are_errors():
    with ag.installed():
        import autograd

        for wrong in ("import autograd.nothing", "from autograd import nothing", "from autograd.misc import nothing"):
            with pytest.raises(ImportError):
                exec(wrong, {})
        with pytest.raises(AttributeError, match="nothing"):
            autograd.nothing  # noqa: B018
        assert autograd.__name__ == "autograd" and "grad" in autograd.__all__


def test_star_imports_and_installing_twice():
    with ag.installed():
        ag.install()
        names: dict = {}
        exec("from autograd.numpy import *", names)
        assert names["sin"] is not None and names["stack"](iter([np.ones(2)])).shape == (1, 2)


def test_autograd_itself_is_not_replaced_behind_anybody_s_back(monkeypatch):
    monkeypatch.setitem(sys.modules, "autograd", types.ModuleType("autograd"))
    with pytest.raises(LoadingError, match="before anything that imports autograd"):
        ag.install()
    ag.uninstall()
    assert "autograd" in sys.modules, "what is not ours stays"


def test_nothing_is_installed_by_an_import():
    code = "import sys, dualad.compat.autograd; print('autograd' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
