"""In-place operations and views, and the residuals, repeated indices and branches that lean on them.

Every function here runs on plain arrays, where NumPy itself writes; `holds` compares all transforms with that. Not
for: the many further kinds of writes (tests/surface/test_writing.py) and branches (tests/test_vmap_branches.py).
"""

import itertools

import numpy as np
import pytest

import dualad as da
from dualad.errors import BranchError, ConversionError, InPlaceError, PlainBufferError
from tests.oracles import differences

RNG = np.random.default_rng(3)
REFUSED = (PlainBufferError, InPlaceError, ConversionError)


def holds(f, *xs):
    """Assert values and first derivatives against NumPy, second ones against first ones, and all of them in batches.

    `f` may write into its arguments: it is given copies.
    """
    run = lambda *xs: f(*[np.copy(x) for x in xs])
    scalar = lambda *xs: np.sum(np.sin(run(*xs)))
    which = tuple(range(len(xs)))
    ts = tuple(np.cos(1.0 + np.arange(float(np.size(x)))).reshape(np.shape(x)) for x in xs)

    value, tangent = da.jvp(run, xs, ts)
    np.testing.assert_allclose(value, run(*xs))
    differences.compare(tangent, differences.along(run, xs, ts), "jvp")
    ct = np.sin(1.0 + np.arange(float(np.size(value)))).reshape(np.shape(value))
    pulled = da.vjp(run, *xs)[1](ct)
    pairing = sum(np.sum(p * t) for p, t in zip(pulled, ts, strict=True))
    assert pairing == pytest.approx(np.sum(ct * tangent))

    gradient = da.grad(scalar, which)
    over = lambda g: lambda *xs: da.jvp(g, xs, ts)[1]  # forward over whatever g is
    curvature = over(gradient)(*xs)
    differences.compare(curvature, differences.along(gradient, xs, ts), "jvp of grad")
    backward = da.grad(lambda *xs: da.jvp(scalar, xs, ts)[1], which)(*xs)
    twice = da.grad(lambda *xs: sum(np.sum(g * t) for g, t in zip(gradient(*xs), ts, strict=True)), which)(*xs)
    for a, b, c in zip(curvature, backward, twice, strict=True):
        np.testing.assert_allclose(b, a, atol=1e-12)
        np.testing.assert_allclose(c, a, atol=1e-12)

    rows = [tuple(x + 0.01 * k * t for x, t in zip(xs, ts, strict=True)) for k in range(3)]
    batch = tuple(np.stack(column) for column in zip(*rows, strict=True))
    np.testing.assert_allclose(da.vmap(run)(*batch), [run(*row) for row in rows])
    along = da.jvp(da.vmap(run), batch, tuple(np.stack([t] * 3) for t in ts))[1]
    np.testing.assert_allclose(along, [da.jvp(run, row, ts)[1] for row in rows], atol=1e-12)
    summed = da.grad(lambda *batch: np.sum(da.vmap(scalar)(*batch)), which)(*batch)
    inside = da.vmap(gradient)(*batch)
    for i, (a, b) in enumerate(zip(summed, inside, strict=True)):
        np.testing.assert_allclose(a, [gradient(*row)[i] for row in rows], atol=1e-12)
        np.testing.assert_allclose(b, a, atol=1e-12)
    square = tuple(np.stack([x, 2 * x]) for x in batch)
    np.testing.assert_allclose(
        da.vmap(da.vmap(run))(*square),
        [[run(*row) for row in zip(*b, strict=True)] for b in zip(*square, strict=True)],
    )


# ── a captured plain array ───────────────────────────────────────────────────────────────────────────────────────

ALIASES = {
    "itself": lambda a: a,
    "[...]": lambda a: a[...],
    "[0]": lambda a: a[0],
    "[:, 1]": lambda a: a[:, 1],
    "[::-1]": lambda a: a[::-1],
    "[None]": lambda a: a[None],
    "[1:, :2]": lambda a: a[1:, :2],
    ".T": lambda a: a.T,
    ".mT": lambda a: a.mT,
    ".flat as an array": lambda a: a.reshape(-1),
    ".view()": lambda a: a.view(),
    ".ravel()": lambda a: a.ravel(),
    ".squeeze()": lambda a: a[None].squeeze(),
    ".swapaxes": lambda a: a.swapaxes(0, 1),
    ".transpose": lambda a: a.transpose(),
    "np.atleast_3d": np.atleast_3d,
    "np.asarray": np.asarray,
    "np.broadcast_to, writeable": lambda a: a[None, :],
    "np.expand_dims": lambda a: np.expand_dims(a, 0),
    "np.flip": np.flip,
    "np.fliplr": np.fliplr,
    "np.flipud": np.flipud,
    "np.moveaxis": lambda a: np.moveaxis(a, 0, 1),
    "np.permute_dims": np.permute_dims,
    "np.ravel": np.ravel,
    "np.real": np.real,
    "np.rollaxis": lambda a: np.rollaxis(a, 1),
    "np.rot90": np.rot90,
    "np.split": lambda a: np.split(a, 3)[1],
    "np.array_split": lambda a: np.array_split(a, 2)[0],
    "np.hsplit": lambda a: np.hsplit(a, 3)[2],
    "np.vsplit": lambda a: np.vsplit(a, 3)[0],
    "np.unstack": lambda a: next(iter(a)),
    "iteration": lambda a: list(a)[1],
}
TRANSFORMS = {
    "jvp": lambda f, x: da.jvp(f, (x,), (x,)),
    "vjp": lambda f, x: da.vjp(f, x),
    "grad": lambda f, x: da.grad(f)(x),
    "vmap": lambda f, x: da.vmap(f)(np.stack([x, x])),
    "vmap of grad": lambda f, x: da.vmap(da.grad(f))(np.stack([x, x])),
}


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("alias", ALIASES)
def test_writes_into_a_captured_array_raise(transform, alias):
    captured = np.arange(9.0).reshape(3, 3)
    view = ALIASES[alias](captured)  # taken before the transform begins
    assert np.shares_memory(view, captured)
    writes = [
        lambda x: view.__setitem__((0,) * view.ndim, x),
        lambda x: view.__setitem__(..., x),
        lambda x: np.copyto(view, x),
        lambda x: np.multiply(view, x, out=view),
        lambda x: view.fill(x),
    ]
    for write in writes:
        with pytest.raises(REFUSED) as caught:
            TRANSFORMS[transform](lambda x, write=write: write(x) or x, 2.0)
        assert "Instead:" in str(caught.value)
    np.testing.assert_array_equal(captured, np.arange(9.0).reshape(3, 3))


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("index", [0, slice(1), ..., [0, 1], np.array([True, False, True])], ids=str)
def test_writes_of_every_form_of_index_into_a_captured_array_raise(transform, index):
    captured = np.zeros(3)

    def f(x):
        captured[index] = x
        return x

    with pytest.raises(REFUSED, match="zeros_like"):
        TRANSFORMS[transform](f, 2.0)
    np.testing.assert_array_equal(captured, 0.0)


def test_the_primal_cannot_be_assigned():
    def f(x):
        with pytest.raises(AttributeError):
            x.primal = 1.0
        return x

    da.jvp(f, (2.0,), (1.0,))


# ── writes through views ─────────────────────────────────────────────────────────────────────────────────────────


def double_first_row(x):
    x[:1] *= 2
    return x


def double_first_row_seen_by_a_sibling(x):
    v, w = x[:1], x[:1]
    v *= 2
    return w


def double_in_a_view_of_a_view(x):
    x[:1][:, 1:] *= 2
    return x


def double_where_it_is_not_contiguous(x):
    y = x.T  # (3, 2), over the memory of a (2, 3)
    w = y[:1][:, 1:]
    w *= 2
    return x.T


@pytest.mark.parametrize(
    ("f", "shape", "expected"),
    [
        (double_first_row, (2, 2), [[2, 2], [1, 1]]),
        (double_first_row_seen_by_a_sibling, (2, 2), [[2, 2], [0, 0]]),
        (double_in_a_view_of_a_view, (2, 2), [[1, 2], [1, 1]]),
        (double_where_it_is_not_contiguous, (2, 3), [[1, 1, 1], [2, 1, 1]]),
    ],
)
def test_gradients_through_writes_into_sub_blocks(f, shape, expected):
    x = RNG.normal(size=shape)
    np.testing.assert_array_equal(da.grad(lambda x: np.sum(f(np.copy(x))))(x), expected)
    holds(f, x)


def test_rows_may_be_assigned():
    def f(y, z):
        x = np.zeros((5, 3), like=y)
        x[0] = y
        x[1] = 2 * z
        return x

    y, z = RNG.normal(size=(2, 3))
    dy, dz = da.grad(lambda y, z: np.sum(f(y, z)), (0, 1))(y, z)
    np.testing.assert_array_equal(dy, np.ones(3))
    np.testing.assert_array_equal(dz, np.full(3, 2.0))
    holds(f, y, z)


BASE_AND_VIEW = {
    "the base, then the view": lambda x, v: (x.__imul__(x), v.__iadd__(x[0])),
    "the view, then the base": lambda x, v: (v.__iadd__(x[0]), x.__imul__(x)),
    "the view twice": lambda x, v: (v.__imul__(v), v.__setitem__(0, x[1])),
    "the base twice": lambda x, v: (x.__setitem__(slice(2), 1.0), x.__imul__(v[0])),
}
VIEWS = {
    "slice": lambda x: x[1:5],
    "reversed": lambda x: x[::-2],
    "reshaped": lambda x: x.reshape(2, 3)[1],
    "transposed": lambda x: x.reshape(2, 3).T[1],
    "view of views": lambda x: np.swapaxes(x[None, ::-1], 0, 1)[1:4, 0],
    "raveled": lambda x: np.ravel(x.reshape(3, 2)),
}


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("order", BASE_AND_VIEW)
def test_base_and_view_may_be_written_in_either_order(order, view):
    def f(x):
        v = VIEWS[view](x)
        BASE_AND_VIEW[order](x, v)
        return np.concatenate([x, v])

    holds(f, np.array([0.7, -1.2, 1.5, 0.3, 1.9, -0.4]))


# ── set item ─────────────────────────────────────────────────────────────────────────────────────────────────────

ALL = slice(None)
SCALARS = [
    ((5, 5), 1),
    ((5,), 1),
    ((1,), 0),
    ((10,), ([0, 4, 2],)),
    ((5, 5), ([0, 4], [2, 2])),
    ((5, 5, 5), (ALL, ALL, [1, 3])),
    ((5, 5, 5), (ALL, [1, 3], ALL)),
    ((5, 5, 5), ([1, 3], ALL, ALL)),
    ((5, 5, 5), (ALL, [2, 4], [1, 3])),
    ((5, 5, 5), ([1, 3], [2, 4], ALL)),
]
ARRAYS = [
    ((5, 5), 3),
    ((5, 5), ([0, 1], [1, 0])),
    ((5,), 3),
    ((5,), np.array(3)),  # a 0-d index array
    ((5,), ([0, 1, 2, 3],)),
    ((5, 5, 5), (ALL, ALL, [1, 3])),
    ((5, 5, 5), (ALL, [1, 3], ALL)),
    ((5, 5, 5), ([1, 3], ALL, ALL)),
    ((5, 5, 5), (ALL, [2, 4], [1, 3])),
    ((5, 5, 5), ([1, 3], [2, 4], ALL)),
    ((5, 5, 5), (np.array([[2], [4]]), ALL, np.array([[1, 3]]))),
]
MASKS = [
    ((5, 5), np.eye(5, dtype=bool)),
    ((5,), np.array([True, False, True, False, False])),
    ((4, 5), np.array([False, True, True, False])),
    ((4, 5), (ALL, np.array([True, False, False, True, True]))),
    ((2, 3, 4), np.arange(6).reshape(2, 3) % 2 == 0),
]


def check_set_item(shape, index, value):
    """Gradient 0 where entries were replaced and 1 elsewhere; of the value, the number of entries each went to."""
    x = RNG.normal(size=shape)
    slot = np.zeros(shape)[index].shape

    def write(x, v):
        x[index] = v
        return x

    functional = lambda x, v: x.at[index].set(v)
    replaced = np.ones(shape)
    replaced[index] = 0.0
    times = np.prod(slot) / max(np.size(value), 1) if np.prod(slot) else 0.0
    for f in (lambda x, v: write(np.copy(x), v), functional):
        dx, dv = da.grad(lambda x, v, f=f: np.sum(f(x, v)), (0, 1))(x, value)
        np.testing.assert_array_equal(dx, replaced)
        np.testing.assert_array_equal(dv, np.full(np.shape(value), times))
        assert np.shape(dv) == np.shape(value)
        for transform in (da.jacfwd, da.jacrev):
            np.testing.assert_array_equal(transform(lambda x, f=f: np.sum(f(x, value) ** 2))(x), replaced * 2 * x)
        np.testing.assert_array_equal(da.vmap(f, in_axes=(0, None))(np.stack([x, -x]), value)[1], write(-x, value))
    promoted = lambda v: write(np.zeros_like(v, shape=shape), v)  # the lanes share what is written into
    values = np.stack([np.asarray(value), 2 * np.asarray(value)])
    np.testing.assert_array_equal(da.vmap(promoted)(values)[1], promoted(2 * np.asarray(value)))
    holds(write, x, value)


@pytest.mark.parametrize(("shape", "index"), SCALARS, ids=str)
def test_a_scalar_is_written_at_any_index(shape, index):
    check_set_item(shape, index, 1.5)


@pytest.mark.parametrize(("shape", "index"), ARRAYS, ids=str)
def test_an_array_is_written_and_broadcast_at_any_index(shape, index):
    slot = np.zeros(shape)[index].shape
    check_set_item(shape, index, RNG.normal(size=slot))
    if slot:  # broadcast to the slot: the cotangents are summed
        check_set_item(shape, index, RNG.normal(size=slot[-1:]))
        check_set_item(shape, index, RNG.normal(size=(1,) * len(slot)))


@pytest.mark.parametrize(("shape", "mask"), MASKS, ids=str)
def test_entries_under_a_mask_are_written(shape, mask):
    slot = np.zeros(shape)[mask].shape
    check_set_item(shape, mask, RNG.normal(size=slot))
    check_set_item(shape, mask, -0.5)


# ── several views at once ────────────────────────────────────────────────────────────────────────────────────────


def split_pieces(x):
    a, b, c = np.split(x, 3)
    b *= a
    c[:] = b[::-1]
    return x


def columns(x):
    left, right = np.hsplit(x.reshape(3, 2), 2)
    left += right
    right[1:] *= left[0]
    return x


def uneven_pieces(x):
    first, last = np.array_split(x, [4])
    first[1:3] = last
    last *= first[0]
    return x


def unstacked(x):
    for k, row in enumerate(np.unstack(x.reshape(3, 2)) if hasattr(np, "unstack") else x.reshape(3, 2)):
        row *= x[k]
    return x


def a_piece_of_a_piece(x):
    half = np.split(x, 2)[1]
    np.split(half[:2], 2)[1][:] = x[0] ** 2
    return x


@pytest.mark.parametrize("f", [split_pieces, columns, uneven_pieces, unstacked, a_piece_of_a_piece])
def test_pieces_are_views(f):
    holds(f, np.array([0.7, -1.2, 1.5, 0.3, 1.9, -0.4]))


# ── bookkeeping ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_parts_of_a_complex_array_are_views():
    def f(z):
        z = z * 1
        z.real[0] *= 3.0
        z.imag += z.real
        z.real.T[1] = z.imag[0]
        return z

    z, t = np.array([1 + 2j, 3 - 1j]), np.array([1 + 1j, 2 - 0.5j])
    value, tangent = da.jvp(f, (z,), (t,))
    np.testing.assert_allclose(value, f(z))
    np.testing.assert_allclose(tangent, f(t))  # f is linear over the reals
    pull = da.vjp(f, z)[1]
    c = np.array([0.3 - 1j, 2 + 1j])
    # In reverse the transposed gradient: the real pairing of cotangents and tangents is kept.
    assert np.sum(pull(c)[0] * t).real == pytest.approx(np.sum(c * tangent).real)
    np.testing.assert_allclose(da.vmap(f)(np.stack([z, 2 * z])), [f(z), f(2 * z)])


def test_views_taken_by_an_outer_transform_are_written_by_an_inner_one():
    """A view of an outer level's tensor, written to inside: the base holds the inner level's value while that runs."""

    def outer(x):
        view = x[1:]

        def inner(y):
            view[0] = y * x[2]
            return np.sum(x**2) * y

        return da.grad(inner)(2.0)

    def closed(x):  # inner(y) = y (x0² + y² x2² + x2²): its derivative at y = 2
        return x[0] ** 2 + 12.0 * x[2] ** 2 + x[2] ** 2

    x = np.array([0.5, 1.5, -0.7])
    assert outer_value(outer, x) == pytest.approx(closed(x))
    np.testing.assert_allclose(da.jacfwd(outer)(x), da.grad(closed)(x))
    np.testing.assert_allclose(da.vmap(outer)(np.stack([x, 2 * x])), [closed(x), closed(2 * x)])


def outer_value(f, x):
    return da.jvp(f, (x,), (0 * x,))[0]


def test_reshapes_that_copy_are_copies():
    def f(x):
        t = x.reshape(2, 3).T
        t.reshape(-1)[0] = 100.0  # a copy: nobody sees the write
        t.reshape(3, 2, 1)[0] = x[5]  # a view: x sees it
        return x

    holds(f, np.array([0.7, -1.2, 1.5, 0.3, 1.9, -0.4]))


def test_resize_of_a_tensor_is_refused():
    with pytest.raises(InPlaceError, match="resize"):
        da.jvp(lambda x: x.resize(2), (np.ones(4),), (np.ones(4),))


# ── updates that reduce ──────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("name", "sign"), [("min", 1.0), ("max", -1.0)])
def test_ties_of_extrema_at_repeated_indices_share_evenly(name, sign):
    f = lambda x, v: np.sum(getattr(x.at[np.array([0, 1])], name)(v))
    x, v = sign * np.array([1.0, 5.0, 7.0]), sign * np.array([1.0, 2.0])
    for transform in (da.jacfwd, da.jacrev):
        dx, dv = transform(f, (0, 1))(x, v)
        np.testing.assert_array_equal(dx, [0.5, 0.0, 1.0])
        np.testing.assert_array_equal(dv, [0.5, 1.0])


def product_at(x, v):
    return np.sum((x + 0 * v[:2]).at[np.array([0, 0, 0, 1])].multiply(v))  # a tensor whichever of the two is traced


@pytest.mark.parametrize("v", [[2.0, 3.0, 4.0, 5.0], [0.0, 3.0, 4.0, 5.0], [0.0, 0.0, 4.0, 5.0]], ids=str)
def test_derivatives_of_products_at_repeated_indices_with_zeros(v):
    x, v = np.array([1.5, -2.0]), np.array(v)
    plain = lambda x, v: x[0] * v[0] * v[1] * v[2] + x[1] * v[3]
    assert da.jvp(product_at, (x, v), (x, v))[0] == plain(x, v)
    for transform in (da.jacfwd, da.jacrev):
        for a, b in zip(transform(product_at, (0, 1))(x, v), transform(plain, (0, 1))(x, v), strict=True):
            np.testing.assert_allclose(a, b)
    pairs = itertools.product(range(2), range(2))
    ours, theirs = da.hessian(product_at, (0, 1))(x, v), da.hessian(plain, (0, 1))(x, v)
    for i, j in pairs:
        np.testing.assert_allclose(ours[i][j], theirs[i][j])
    rows = np.stack([v, v + 1])
    np.testing.assert_allclose(
        da.vmap(da.grad(product_at, 1), in_axes=(None, 0))(x, rows), [da.grad(plain, 1)(x, r) for r in rows]
    )


# ── the caller's arrays may change between the two passes ────────────────────────────────────────────────────────

SAVED = {
    "the argument": lambda x, c: np.sum(np.exp(x) * x**2),
    "a captured array": lambda x, c: np.sum(np.sin(x) * c),
    "views of both": lambda x, c: np.sum(x[::-1] * c[1:4].T ** 2 * x.reshape(3)),
    "a result of a linear operation": lambda x, c: np.sum((2 * x) ** 3) + np.sum(c[:3] @ x),
    "an argument written to": lambda x, c: np.sum(overwritten(x, c) * x),
}


def overwritten(x, c):
    y = np.copy(x)
    y[1:] *= x[:-1]
    y += c[:3]
    return y


@pytest.mark.parametrize("name", SAVED)
def test_never_a_silently_wrong_gradient(name):
    f = SAVED[name]
    x, c = np.array([0.3, -0.7, 1.1]), np.array([1.0, 2.0, 3.0, 4.0])
    capture = (lambda x: f(x, c)) if name != "a captured array" else (lambda x: f(x, c[:3]))
    expected, product = da.grad(capture)(x), da.jvp(capture, (x,), (np.ones(3),))[1]
    for make, check in (
        (lambda: da.vjp(capture, x)[1], lambda pull: np.testing.assert_allclose(pull(1.0)[0], expected)),
        (lambda: da.linearize(capture, x)[1], lambda lin: np.testing.assert_allclose(lin(np.ones(3)), product)),
    ):
        held = make()
        kept = x.copy(), c.copy()
        for array in (x, c):
            array[...] = 1e6
        check(held)
        check(held)
        x[...], c[...] = kept


def test_a_pullback_survives_writes_of_the_function_itself():
    def f(x):
        x = np.copy(x)
        y = np.exp(x)  # the derivative needs y, which is overwritten
        z = y * x
        y[:] = 0.0
        x *= 0.0
        return z + y + x

    holds(f, np.array([0.3, -0.7, 1.1]))


# ── control flow that depends on data ────────────────────────────────────────────────────────────────────────────


def by_cases(x):
    if x > 1:
        return x**3
    while abs(x) > 0.5:
        x = x / 2
    return 2 * np.sin(x) if x > 0 else x * x


POINTS = np.array([2.0, 0.8, -0.3, -3.0, 0.1])


@pytest.mark.filterwarnings("ignore::dualad.errors.PerformanceNote")
def test_branches_agree_in_eager_differentiation_and_in_lanes():
    for p in POINTS:
        differences.compare(da.grad(by_cases)(p), differences.along(by_cases, (p,), (1.0,)), str(p))
    first = [da.grad(by_cases)(p) for p in POINTS]
    np.testing.assert_allclose(da.vmap(by_cases)(POINTS), [by_cases(p) for p in POINTS])
    np.testing.assert_allclose(da.vmap(da.grad(by_cases))(POINTS), first)
    np.testing.assert_allclose(da.grad(lambda x: np.sum(da.vmap(by_cases)(x)))(POINTS), first)
    np.testing.assert_allclose(da.vmap(da.hessian(by_cases))(POINTS), [da.hessian(by_cases)(p) for p in POINTS])


def test_shape_and_dtype_of_a_result_may_depend_on_values():
    def f(x):
        if x[0] > 0:
            return x[: int(x[0]) + 1] ** 2
        return (x * 1j)[:1]

    up, down = np.array([1.5, 2.0, 3.0]), np.array([-1.5, 2.0, 3.0])
    np.testing.assert_array_equal(da.jvp(f, (up,), (np.ones(3),))[1], [3.0, 4.0])
    np.testing.assert_array_equal(da.jvp(f, (down,), (np.ones(3),))[1], [1j])


def test_branches_that_raise_recommend_where():
    with pytest.raises(BranchError, match=r"np\.where"):
        da.vmap(lambda x: x if x > 0 else -x, branches="error")(POINTS)
    with pytest.raises(BranchError, match="max_splits=2"):
        da.vmap(lambda n: sum(range(n)), max_splits=2)(np.arange(5))
