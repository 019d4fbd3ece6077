"""Other libraries' code that meets a tensor is refused with what to write instead."""

import numpy as np
import pytest

import dualad as da
from dualad.errors import ConversionError, DualadError, UnsupportedError

special = pytest.importorskip("scipy.special")
sparse = pytest.importorskip("scipy.sparse")
linalg = pytest.importorskip("scipy.linalg")
stats = pytest.importorskip("scipy.stats")
interpolate = pytest.importorskip("scipy.interpolate")
optimize = pytest.importorskip("scipy.optimize")
X = np.array([1.0, 2.0, 3.0])
A = sparse.csr_matrix(np.arange(9.0).reshape(3, 3))
compiled = special._ufuncs._cospi  # a ufunc of nobody's rules

TRANSFORMS = {
    "jvp": lambda f: da.jvp(f, (X,), (X,)),
    "vmap": lambda f: da.vmap(f)(np.stack([X, X])),
    "trace": lambda f: da.trace(f, X),
}
CALLS = {
    "np.dot": (lambda x: np.dot(x, A), "dualad.scipy.sparse.csr_array"),
    "A + matrix": (lambda x: A + np.outer(x, x), "make it a sparse array"),
    "A.multiply(x)": (lambda x: A.multiply(x), "dualad.scipy.sparse.csr_array"),
    "csr_array(x)": (lambda x: sparse.csr_array(x), "dualad.scipy.sparse.csr_array"),
    "expm": (lambda x: linalg.expm(np.outer(x, x)), "dualad.scipy.linalg.expm"),
    "norm.logpdf": (lambda x: stats.norm.logpdf(x), "dualad.scipy.stats.norm"),
    "CubicSpline": (lambda x: interpolate.CubicSpline(X, X)(x), "dualad.scipy.interpolate.CubicSpline"),
    "multigammaln": (lambda x: special.multigammaln(x, 2), "dualad.scipy.special.multigammaln"),
    "ufunc": (compiled, "dualad.wrap"),
    "as_strided": (lambda x: np.lib.stride_tricks.as_strided(x, (2, 2), (8, 8)), "sliding_window_view"),
}


@pytest.mark.plain
@pytest.mark.filterwarnings("ignore:Calling expm:DeprecationWarning")  # of SciPy 1.18, before it refuses object arrays
@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("name", CALLS)
def test_the_refusal_names_what_to_write(name, transform):
    f, instead = CALLS[name]
    with pytest.raises(DualadError) as caught:
        TRANSFORMS[transform](f)
    if transform == "trace" and name in ("multigammaln", "norm.logpdf"):
        return  # SciPy asks for the truth of a value first, which a program does not have
    if name == "csr_array(x)" and instead not in caught.value.instead:
        return  # nor whether an entry is zero; and early releases do make a matrix of objects, which can't be returned
    assert isinstance(caught.value, (ConversionError, UnsupportedError))
    assert instead in caught.value.instead
    if "At:" in str(caught.value):
        assert "test_foreign.py" in str(caught.value), "the line is the user's"


def test_what_is_named_works():
    matrix = da.numpy.asarray(A.toarray())
    ours = __import__("dualad.scipy.sparse", fromlist=["csr_array"]).csr_array(A)
    np.testing.assert_allclose(da.jvp(lambda x: ours @ x, (X,), (X,))[1], matrix @ X)
    np.testing.assert_allclose(da.jvp(lambda x: x @ ours, (X,), (X,))[1], X @ matrix)


def test_errors_of_the_users_own_pass_through():
    def f(x):
        raise NotImplementedError("not yet")

    with pytest.raises(NotImplementedError, match="not yet"):
        da.jvp(f, (X,), (X,))
    with pytest.raises(ValueError, match="mismatch"):
        da.jvp(lambda x: sparse.csr_array(np.eye(2)) @ np.ones(3) + x, (X,), (X,))


@pytest.mark.plain
def test_a_callback_is_the_users_own_code():
    def f(x):
        return optimize.newton(lambda t: t - float(x[0]), 1.0)

    with pytest.raises(ConversionError, match=r"float\(\) was called on a Dual"):
        da.grad(f)(X)
