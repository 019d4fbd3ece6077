"""Arrays that are not NumPy's, as primals: Dask's without a compute, and a strict device array without a look."""

from __future__ import annotations

import numpy as np
import pytest

import dualad as da
from dualad.core.tables import OPS
from dualad.errors import ArgumentTypeError, DualadError, UnsupportedError
from tests.ops.test_every_op import op_values

from .device import OnDevice, Refused
from .everyday import FUNCTIONS, V, X, constants

da.register_array(OnDevice)


# ── the libraries ────────────────────────────────────────────────────────────────────────────────────────────────


class Computed(AssertionError):
    """A lazy array was computed by somebody who was not asked to."""


def _no_scheduler(graph, keys, **options):
    raise Computed("a graph was computed")


class _Device:
    """The strict device array."""

    kind = OnDevice

    @staticmethod
    def make(x, whole=False):
        return OnDevice(x)

    @staticmethod
    def run(f):
        return f()

    @staticmethod
    def get(x):
        return x.get()


class _Dask:
    """Dask's arrays, in two blocks along each axis, under a scheduler that refuses to compute."""

    def __init__(self):
        self.dask = pytest.importorskip("dask", reason="Dask is not installed: the extra dualad[scale]")
        self.array = pytest.importorskip("dask.array", reason="Dask is not installed: the extra dualad[scale]")
        self.kind = self.array.Array

    def make(self, x, whole=False):
        x = np.asarray(x)
        return self.array.from_array(x, chunks=x.shape if whole else tuple(max(1, (n + 1) // 2) for n in x.shape))

    def run(self, f):
        import warnings

        with self.dask.config.set(scheduler=_no_scheduler), warnings.catch_warnings():
            # Dask says so when it computes an array for a function of NumPy's that it does not have.
            warnings.filterwarnings("error", message=".*is not implemented by Dask array", category=FutureWarning)
            return f()

    def get(self, x):
        return np.asarray(self.dask.compute(x, scheduler="synchronous")[0])


class _Cupy:
    """CuPy's arrays, where there is a GPU."""

    def __init__(self):
        self.cupy = pytest.importorskip("cupy", reason="CuPy is not installed")
        if not self.cupy.is_available():
            pytest.skip("there is no GPU")
        self.kind = self.cupy.ndarray

    def make(self, x, whole=False):
        return self.cupy.asarray(x)

    def run(self, f):
        return f()

    def get(self, x):
        return self.cupy.asnumpy(x)


LIBRARIES = {"device": _Device, "dask": _Dask, "cupy": _Cupy}
_open = {}


@pytest.fixture(params=LIBRARIES)
def library(request):
    if request.param not in _open:
        _open[request.param] = LIBRARIES[request.param]()
    return _open[request.param]


@pytest.fixture
def dask():
    if "dask" not in _open:
        _open["dask"] = _Dask()
    return _open["dask"]


# ── everyday functions under every transform ─────────────────────────────────────────────────────────────────────


def total(f):
    return lambda x, k: np.sum(f(x, k) ** 2)


def _rows(x, v):
    rows = np.stack([x, v])
    return rows.rechunk((1, -1)) if hasattr(rows, "rechunk") else rows


TRANSFORMS = {
    "jvp": lambda f, x, v, k: da.jvp(lambda x: f(x, k), (x,), (v,)),
    "linearize": lambda f, x, v, k: da.linearize(lambda x: f(x, k), x)[1](v),
    "vjp": lambda f, x, v, k: da.vjp(lambda x: total(f)(x, k), x)[1](1.0),
    "grad": lambda f, x, v, k: da.grad(lambda x: total(f)(x, k))(x),
    "value_and_grad": lambda f, x, v, k: da.value_and_grad(lambda x: total(f)(x, k))(x),
    "hvp": lambda f, x, v, k: da.jvp(da.grad(lambda x: total(f)(x, k)), (x,), (v,))[1],
    "grad of grad": lambda f, x, v, k: da.grad(lambda x: np.sum(da.grad(lambda x: total(f)(x, k))(x) * v))(x),
    "vmap": lambda f, x, v, k: da.vmap(lambda x: f(x, k))(_rows(x, v)),
    "vmap of grad": lambda f, x, v, k: da.vmap(da.grad(lambda x: total(f)(x, k)))(_rows(x, v)),
    "jacfwd": lambda f, x, v, k: da.jacfwd(lambda x: f(x, k))(x),
    "jacrev": lambda f, x, v, k: da.jacrev(lambda x: f(x, k))(x),
    "hessian": lambda f, x, v, k: da.hessian(lambda x: total(f)(x, k))(x),
}


def _constants(library):
    k = constants(library.make)
    k.A = library.make(constants(np.asarray).A, whole=True)  # LAPACK's
    return k


def _matrix():
    """Every function under every transform; a diagonal slice of them in the default run."""
    for i, name in enumerate(FUNCTIONS):
        for j, transform in enumerate(TRANSFORMS):
            marks = [] if (i + j) % 6 == 0 else [pytest.mark.full]
            yield pytest.param(name, transform, id=f"{name}-{transform}", marks=marks)


@pytest.mark.parametrize(("name", "transform"), list(_matrix()))
def test_an_everyday_function_stays_where_it_is(name, transform, library):
    f, run = FUNCTIONS[name], TRANSFORMS[transform]
    with np.errstate(all="ignore"):
        wanted = run(f, X, V, constants(np.asarray))
        k, x, v = _constants(library), library.make(X), library.make(V)
        found = library.run(lambda: run(f, x, v, k))
        for got, want in zip(_leaves(found), _leaves(wanted), strict=True):
            assert type(got) is library.kind
            assert (got.shape, got.dtype) == (np.shape(want), np.asarray(want).dtype)
            np.testing.assert_allclose(library.get(got), want, rtol=1e-10, atol=1e-12)


def _leaves(x):
    return x if isinstance(x, (tuple, list)) else [x]


def test_what_does_not_depend_on_an_argument_is_zeros_of_its_library(library):
    x, y = library.make(X), library.make(V)
    for f in (lambda x, y: np.sum(x * 2.0), lambda x, y: np.sum(y) * 0.0 + np.sum(x)):
        gradient = library.run(lambda f=f: da.grad(f, argnums=(0, 1))(x, y))
        assert [type(g) for g in gradient] == [library.kind] * 2
        np.testing.assert_array_equal(library.get(gradient[1]), np.zeros(6))
    value, tangent = library.run(lambda: da.jvp(lambda x: x * 0.0 + y, (x,), (None,)))
    assert (type(value), type(tangent)) == (library.kind, library.kind)
    np.testing.assert_array_equal(library.get(tangent), np.zeros(6))
    jacobian = library.run(lambda: da.jacfwd(lambda x: 2.0 * y)(x))
    assert (type(jacobian), jacobian.shape) == (library.kind, (6, 6))


POLES = {
    "selected": lambda x: np.sum(np.where(x > 0, np.sqrt(x), 0.0)),
    "norm": lambda x: np.sqrt(np.sum(x * x)),
    "powers": lambda x: np.sum(np.sqrt(x * x)),
    "factor after": lambda x: np.sum(np.sqrt(x) ** 2),
    "logarithm": lambda x: np.sum(np.where(x > 0, np.log(x) * x, 0.0)),
}


@pytest.mark.parametrize("name", POLES)
def test_zeros_are_strong_without_a_look(name, library):
    f, zeros = POLES[name], np.array([0.0, 0.0, 4.0])
    for at in (zeros, np.zeros(3)):
        with np.errstate(all="ignore"):
            # Where an infinity was really met, a second derivative of numbers that are not known may be NaN elsewhere.
            second = [da.jacfwd(da.grad(f))] if name != "factor after" else []
            for run in (da.grad(f), da.jacfwd(f), *second):
                found = library.run(lambda run=run, at=at: run(library.make(at)))
                np.testing.assert_allclose(library.get(found), run(at), err_msg=f"{at}")


def test_a_constant_written_to_later_is_the_one_that_was_read(library):
    c = library.make(V)

    def f(x):
        y = x * c
        c[0] = 100.0
        return np.sum(y)

    _, pull = da.vjp(f, library.make(X))
    np.testing.assert_array_equal(library.get(pull(1.0)[0]), V)
    _, lin = da.linearize(lambda x: x * c, library.make(X))
    c[1] = -7.0
    tangent = library.get(lin(library.make(np.ones(6))))
    np.testing.assert_array_equal(tangent, [100.0, *V[1:]])


def test_single_precision_and_complex_numbers_keep_their_dtype(library):
    x = library.make(X.astype(np.float32))
    gradient = library.run(lambda: da.grad(lambda x: np.sum(np.sin(x) ** 2))(x))
    assert gradient.dtype == np.float32
    z = X + 1j * V
    f = lambda z: np.sum(np.abs(z) ** 2)
    np.testing.assert_allclose(library.get(library.run(lambda: da.grad(f)(library.make(z)))), da.grad(f)(z))


def test_trees_of_them(library):
    p = {"w": library.make(V), "b": library.make(1.5)}
    gradient = library.run(lambda: da.grad(lambda p: np.sum(np.tanh(p["w"]) + p["b"]))(p))
    np.testing.assert_allclose(library.get(gradient["w"]), 1 - np.tanh(V) ** 2)
    assert library.get(gradient["b"]) == 6.0


@pytest.mark.parametrize(
    "f",
    [
        lambda x: np.maximum.accumulate(x),
        lambda x: np.minimum.accumulate(x),
        lambda x: np.logaddexp.accumulate(x),
        lambda x: np.cumprod(x[::-1]),
        lambda x: np.cumsum(x.reshape(2, 3), axis=1),
        lambda x: np.cumprod(x.reshape(3, 2), axis=0),
    ],
)
def test_scans(f, library):
    wanted = da.jacfwd(f)(X)
    for jac in (da.jacfwd, da.jacrev):
        np.testing.assert_allclose(library.get(library.run(lambda jac=jac: jac(f)(library.make(X)))), wanted)


def test_a_gather_is_scattered_back_on_the_device():
    x, places = OnDevice(X), OnDevice(np.array([1, 1, 4, -1]))
    gradient = da.grad(lambda x: np.sum(x[places] ** 2))(x)
    np.testing.assert_allclose(gradient.get(), da.grad(lambda x: np.sum(x[np.array([1, 1, 4, -1])] ** 2))(X))


def test_the_device_refuses_what_it_should():
    x = OnDevice(X)
    for f in (lambda x: np.sum(x * V), lambda x: np.sum(V * x)):
        with pytest.raises(Refused, match="host"):
            da.grad(f)(x)
    with pytest.raises(Refused):
        da.jvp(np.sin, (x,), (V,))[1].get() if da.jvp(lambda x: x * x, (x,), (V,)) else None
    with pytest.raises(Refused, match="values"):
        da.grad(lambda x: x[0] if x[0] > 0 else x[1])(x)


# ── Dask ─────────────────────────────────────────────────────────────────────────────────────────────────────────

#: what gathers the whole array, in words of the refusal
GATHERS = {
    "sort": lambda x: np.sort(x),
    "argsort": lambda x: x * np.argsort(x),
    "median": lambda x: np.median(x),
    "percentile": lambda x: np.percentile(x, 30.0),
    "fft": lambda x: np.abs(np.fft.fft(x)),
    "convolve": lambda x: np.convolve(x, x),
    "searchsorted": lambda x: x * np.searchsorted(x, x),
    "eigh": lambda x: np.linalg.eigvalsh(np.outer(x, x) + x[0]),
    "svd": lambda x: np.linalg.svd(np.outer(x, x), compute_uv=False),
    "determinant": lambda x: np.linalg.det(np.outer(x, x) + x[0]),
}


@pytest.mark.parametrize("name", GATHERS)
def test_what_needs_all_values_needs_one_block(name, dask):
    f = GATHERS[name]
    with pytest.raises(UnsupportedError) as caught:
        dask.run(lambda: da.jvp(f, (dask.make(X),), (dask.make(V),)))
    assert "rechunk(-1)" in caught.value.instead
    assert ".compute()" in caught.value.instead
    whole = dask.make(X, whole=True)
    value, tangent = dask.run(lambda: da.jvp(f, (whole,), (dask.make(V, whole=True),)))
    wanted = da.jvp(f, (X,), (V,))
    np.testing.assert_allclose(dask.get(value), wanted[0], rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(dask.get(tangent), wanted[1], rtol=1e-8, atol=1e-8)


def test_a_gather_needs_one_block_only_on_the_way_back(dask):
    places = np.array([1, 1, 4])
    f = lambda x: np.sum(x[places] ** 2)
    value, _ = dask.run(lambda: da.jvp(f, (dask.make(X),), (dask.make(V),)))
    np.testing.assert_allclose(dask.get(value), f(X))
    x = dask.array.from_array(X, chunks=1)
    with pytest.raises(UnsupportedError, match="index array"):
        dask.run(lambda: da.grad(lambda x: np.sum(x[np.array([1, 1, 4])] ** 2))(x))
    whole = dask.make(X, whole=True)
    np.testing.assert_allclose(dask.get(dask.run(lambda: da.grad(f)(whole))), da.grad(f)(X))


VALUES = {
    "mask": lambda x: np.sum(x[x > 0]),
    "index": lambda x: x[np.argmax(x)],
    "real_if_close": lambda x: np.sum(np.real_if_close(x + 0j)).real,
    "emath": lambda x: np.real(np.sum(np.emath.sqrt(x))),
    "positions": lambda x: np.sum(x[np.nonzero(x > 0)]),
    "unique": lambda x: np.sum(np.unique(x)),
    "histogram": lambda x: np.sum(np.histogram(x, weights=x)[0]),
    "cond": lambda x: da.cond(np.sum(x) > 0, np.sum, np.max, x),
    "while_loop": lambda x: np.sum(da.while_loop(lambda y: np.sum(y) < 9.0, lambda y: 2.0 * y, x)),
}


@pytest.mark.parametrize("name", VALUES)
def test_what_is_decided_by_values_is_refused(name, dask):
    for transform in (da.grad, da.jacfwd):
        with pytest.raises(DualadError, match=r"\.compute\(\)|np\.where"):
            dask.run(lambda transform=transform: transform(VALUES[name])(dask.make(X)))


def test_entries_read_one_by_one_and_lists_of_them_stay_lazy(library):
    f = lambda x: np.sum(np.array([x[0] * x[1], x[3]], like=x)) + sum(v * v for v in x) + x[5] ** 2
    np.testing.assert_allclose(library.get(library.run(lambda: da.grad(f)(library.make(X)))), da.grad(f)(X))
    pieces = lambda x: np.piecewise(x, [x > 0], [np.sin, lambda v: 2.0 * v])
    g = lambda x: pieces(x) * np.array([x[0], x[1], 3.0, x[2], 0.0, x[5]], like=x)
    found = library.run(lambda: da.jacfwd(g)(library.make(X)))
    np.testing.assert_allclose(library.get(found), da.jacfwd(g)(X))


def test_a_shape_that_is_not_known_is_refused(dask):
    x = dask.make(X)
    for transform in (da.grad(np.sum), da.jacfwd(np.sin), da.vmap(np.sin), lambda x: da.jvp(np.sin, (x,), (x,))):
        with pytest.raises(ArgumentTypeError, match="compute_chunk_sizes"):
            dask.run(lambda transform=transform: transform(x[x > 0]))


def test_stacks_of_matrices_go_block_by_block(dask):
    rng = np.random.default_rng(3)
    a, b = rng.normal(size=(4, 3, 3)) + 3 * np.eye(3), rng.normal(size=(4, 3))
    f = lambda a, b: np.sum(np.linalg.solve(a, b) ** 2) + np.linalg.det(a)
    each = da.vmap(da.grad(f, argnums=(0, 1)))
    blocks = [dask.array.from_array(x, chunks=(1, *x.shape[1:])) for x in (a, b)]
    for got, want in zip(dask.run(lambda: each(*blocks)), each(a, b), strict=True):
        np.testing.assert_allclose(dask.get(got), want)
        assert got.numblocks[0] == 4, "the rows were gathered"


def _tasks(*arrays):
    return len(set().union(*[set(a.__dask_graph__().keys()) for a in arrays]))


#: one call of the library's in blocks of two, of which the derivative is several: the budget is for functions of these
ONE_CALL = {
    "softplus", "clip", "relu", "root of size", "variance", "product", "largest", "softmax", "running product",
}  # fmt: skip


def test_graphs_are_in_proportion(dask):
    k, x, v = _constants(dask), dask.make(X), dask.make(V)
    ratios = {}
    for name, f in FUNCTIONS.items():
        primal, loss = _tasks(f(x, k)), _tasks(total(f)(x, k))
        forward = _tasks(*da.jvp(lambda x, f=f: f(x, k), (x,), (v,)))
        reverse = _tasks(*da.value_and_grad(lambda x, f=f: total(f)(x, k))(x))
        ratios[name] = (forward / primal, reverse / loss)
    assert np.median([r for r, _ in ratios.values()]) < 2.6
    assert np.median([r for _, r in ratios.values()]) < 3.0
    over = {name: r for name, r in ratios.items() if name not in ONE_CALL and (r[0] > 3 or r[1] > 6)}
    assert not over, over


def test_an_argument_of_a_million_is_no_matrix_of_zeros(dask):
    x = dask.array.ones(1_000_000, chunks=100_000)
    gradient = dask.run(lambda: da.grad(lambda x: np.sum(np.sin(x) ** 2))(x))
    assert gradient.shape == (1_000_000,)
    jacobian = dask.run(lambda: da.jacfwd(lambda x: x * x)(x[:200_000]))
    assert jacobian.shape == (200_000, 200_000), "320 GB, if anybody computes it"
    assert np.prod(jacobian.chunksize) <= 2**24


def test_xarray_maps_a_derivative_over_labels_and_blocks(dask):
    xr = pytest.importorskip("xarray", reason="xarray is not installed")
    values, weights = np.stack([X, V, X + V]), np.arange(6.0)
    each = da.vmap(da.grad(lambda v, w: np.sum(np.tanh(v) * w)), in_axes=(0, None))
    field = xr.DataArray(values, dims=("time", "place"), coords={"time": [3, 1, 2]})
    options = {"input_core_dims": [["place"], ["place"]], "output_core_dims": [["place"]]}
    slopes = xr.apply_ufunc(each, field, xr.DataArray(weights, dims="place"), **options)
    np.testing.assert_allclose(slopes.sel(time=1), weights * (1 - np.tanh(V) ** 2))
    for how in ({"dask": "allowed"}, {"dask": "parallelized", "output_dtypes": [float]}):
        lazy = dask.run(
            lambda how=how: xr.apply_ufunc(
                each, field.chunk(time=1), xr.DataArray(weights, dims="place"), **options, **how
            )
        )
        assert isinstance(lazy.data, dask.kind)
        np.testing.assert_allclose(dask.get(lazy.data), slopes)


# ── every operator ───────────────────────────────────────────────────────────────────────────────────────────────


def _operators():
    for i, op in enumerate(OPS.values()):
        yield pytest.param(op, id=op.name, marks=[] if i % 20 == 0 else [pytest.mark.full])


@pytest.mark.parametrize("op", list(_operators()))
@pytest.mark.filterwarnings("ignore:logm result may be inaccurate")
def test_an_operator_is_right_or_refused_and_never_computed(op, dask):
    """Value, jvp, vjp and vmap of lazy arrays in several blocks: the numbers of NumPy's arrays, or an error."""
    for sample in op_values.subjects(op)[:4]:
        moving = sample.moving()
        for run in [
            _value,
            *([_forward, _backward] if op.jvp is not None and moving else []),
            *([_lanes] * bool(moving)),
        ]:
            with np.errstate(all="ignore"):
                try:
                    wanted = run(sample, moving, np.asarray)
                except Exception:
                    continue
                try:
                    found = dask.run(lambda run=run, s=sample, m=moving: run(s, m, dask.make))
                except Computed:
                    raise
                except FutureWarning as computed:
                    raise Computed(str(computed)) from None
                except (DualadError, TypeError, ValueError, NotImplementedError, AttributeError):
                    continue
                for got, want in zip(_leaves(found), _leaves(wanted), strict=True):
                    if np.asarray(want).dtype == da.float0:
                        continue
                    got = dask.get(got)
                    assert (got.shape, got.dtype) == (np.shape(want), np.asarray(want).dtype), run.__name__
                    np.testing.assert_allclose(got, want, rtol=1e-7, atol=1e-9, err_msg=f"{run.__name__} {sample}")


def _called(sample, moving, make):
    fixed = [make(a) if isinstance(a, np.ndarray) and a.dtype.kind in "fc" else a for a in sample.args]

    def f(*given):
        args = list(fixed)
        for i, x in zip(moving, given, strict=True):
            args[i] = x
        return sample.call(*args)

    return f


def _value(sample, moving, make):
    return _called(sample, moving, make)(*[make(sample.args[i]) for i in moving])


def _forward(sample, moving, make):
    rng = np.random.default_rng(1)
    primals = [np.asarray(sample.args[i]) for i in moving]
    tangents = [rng.normal(size=p.shape).astype(p.dtype) for p in primals]
    return da.jvp(_called(sample, moving, make), [*map(make, primals)], [*map(make, tangents)])[1]


def _backward(sample, moving, make):
    out, pull = da.vjp(_called(sample, moving, make), *[make(sample.args[i]) for i in moving])
    cts = [make(np.ones(o.shape, o.dtype)) if o.dtype.kind in "fc" else None for o in _leaves(out)]
    return pull(type(out)(cts) if isinstance(out, (tuple, list)) else cts[0])


def _lanes(sample, moving, make):
    return da.vmap(_called(sample, moving, make))(*[make(np.stack([sample.args[i]] * 2)) for i in moving])


# ── who may and who may not ──────────────────────────────────────────────────────────────────────────────────────


class Unknown(OnDevice):
    """A type that nobody has registered."""


PLACES = {
    "jvp": lambda o: da.jvp(np.sin, (o,), (o,)),
    "jvp's tangent": lambda o: da.jvp(np.sin, (X,), (o,)),
    "vjp": lambda o: da.vjp(np.sin, o),
    "cotangent": lambda o: da.vjp(np.sin, X)[1](o),
    "grad": lambda o: da.grad(lambda x: np.sum(x * x))(o),
    "linearize": lambda o: da.linearize(np.sin, o),
    "tangent of linearize": lambda o: da.linearize(np.sin, X)[1](o),
    "jacfwd": lambda o: da.jacfwd(np.sin)(o),
    "jacrev": lambda o: da.jacrev(np.sin)(o),
    "hessian": lambda o: da.hessian(lambda x: np.sum(x * x))(o),
    "vmap": lambda o: da.vmap(np.sin)(o),
    "map": lambda o: da.map(np.sin, o),
    "scan": lambda o: da.scan(lambda c, x: (c + x, x), 0.0, o),
    "jacobian": lambda o: da.jacobian(np.sin)(o),
    "hvp": lambda o: da.hvp(lambda x: np.sum(x**3), X, o),
    "hessian_diag": lambda o: da.hessian_diag(lambda x: np.sum(x**3))(o),
    "laplacian": lambda o: da.laplacian(lambda x: np.sum(x**3))(o),
    "sparse_jacobian": lambda o: da.sparse_jacobian(np.sin)(o),
    "jet": lambda o: da.jet(np.sin, (o,), ((o,),)),
    "directional": lambda o: da.directional(lambda x: np.sum(x**3), X, o, order=2),
    "linear_transpose": lambda o: da.linear_transpose(lambda y: 2 * y, X)(o),
    "a tree": lambda o: da.grad(lambda p: np.sum(p["w"]))({"w": o}),
    "ravel_pytree": lambda o: da.ravel_pytree({"a": o}),
}


def _strangers():
    yield "unregistered", lambda: Unknown(X)
    yield "jax", lambda: pytest.importorskip("jax.numpy").asarray(X)
    yield "torch", lambda: pytest.importorskip("torch").as_tensor(X)
    yield "sparse", lambda: pytest.importorskip("sparse").COO.from_numpy(X)
    yield "strict", lambda: pytest.importorskip("array_api_strict").asarray(X)
    yield "dask's series", lambda: type("Series", (Unknown,), {"__module__": "dask.dataframe.core"})(X)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(("name", "make"), [pytest.param(n, m, id=n) for n, m in _strangers()])
def test_strangers_are_errors_and_never_zeros(name, make, place):
    with pytest.raises(ArgumentTypeError) as caught:
        PLACES[place](make())
    assert "pass" in caught.value.instead


@pytest.mark.parametrize(("name", "make"), [pytest.param(n, m, id=n) for n, m in _strangers()])
def test_strangers_in_a_closure_are_right_or_errors(name, make):
    o = make()
    for f in (lambda x: np.sum(x * o), lambda x: np.sum(o * x), lambda x: x @ o):
        for run in (da.grad(f), lambda x, f=f: da.linearize(f, x)[1](V), lambda x, f=f: da.jvp(f, (x,), (V,))[1]):
            try:
                found = run(X)
            except (DualadError, TypeError):
                continue
            np.testing.assert_allclose(found, X if np.shape(found) else X @ V, rtol=1e-6)


def test_only_arrays_are_registered():
    for kind, words in ((X, "its class"), (np.matrix, "np.asarray"), (str, "protocols"), (da.Dual, None)):
        if words is None:
            continue
        with pytest.raises(ArgumentTypeError) as caught:
            da.register_array(kind)
        assert words in caught.value.instead
    assert da.register_array(OnDevice) is OnDevice
