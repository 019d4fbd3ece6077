"""The base of all tensors: NumPy's protocols, and the conversions that are refused with words."""

from __future__ import annotations

import copy
import operator

import numpy as np
import pytest

import dualad as da
from dualad.core.tracer import tracer_in
from dualad.errors import ConversionError, PlainBufferError


def under_jvp(f, x=1.5):
    return da.jvp(f, (x,), (np.ones_like(x),))


def test_unknown_array_types_get_their_turn() -> None:
    """Another library's array that overrides NumPy is asked too: NotImplemented, not a guess."""

    class Foreign:
        __array_ufunc__ = None

        def __radd__(self, other):
            return "foreign"

    def f(x):
        assert x + Foreign() == "foreign"
        return x

    under_jvp(f)


def test_there_is_no_hash_and_equality_is_elementwise() -> None:
    """As of ndarray, so that a cache keyed by arguments is loud and not stale."""

    def f(x):
        with pytest.raises(TypeError, match="unhashable"):
            hash(x)
        assert (x == x).all() and not (x != x).any()
        return x

    under_jvp(f, np.ones(2))


def test_len_and_iteration() -> None:
    def f(x):
        assert len(x) == 3 and [r.shape for r in x] == [(2,)] * 3
        with pytest.raises(TypeError, match="unsized"):
            len(x[0, 0])
        return sum(row.sum() for row in x)

    assert under_jvp(f, np.ones((3, 2))) == (6.0, 6.0)


@pytest.mark.plain
def test_complex_object_arrays_are_refused() -> None:
    """DESIGN section 5: an object array's .real and .imag would be silently wrong."""
    with pytest.raises(ConversionError, match=r"\.real and \.imag"):
        da.jvp(lambda z: np.array([z, z]), (1j,), (1.0 + 0j,))


def test_array_of_scalars_is_packed_back_with_a_note() -> None:
    from dualad.errors import PerformanceNote

    with pytest.warns(PerformanceNote, match=r"np\.stack"):
        value, tangent = under_jvp(lambda x: np.array([x, x * x, 2.0]))
    assert value.dtype == float and value.tolist() == [1.5, 2.25, 2.0] and tangent.tolist() == [1.0, 3.0, 0.0]
    value, tangent = under_jvp(lambda x: np.sum(np.array([x, x * x, 2.0])))  # computes entry by entry, packs nothing
    assert value == 5.75 and tangent == 4.0


@pytest.mark.plain
@pytest.mark.parametrize("dtype", [float, np.float32, int, complex])
def test_a_dtype_that_would_drop_the_tangent_is_refused(dtype) -> None:
    with pytest.raises(PlainBufferError, match="astype"):
        under_jvp(lambda x: np.array(x, dtype=dtype))


@pytest.mark.parametrize("f", [operator.index, lambda x: [1, 2, 3][x], lambda x: range(x)])
def test_a_float_is_no_index(f) -> None:
    with pytest.raises(TypeError):
        under_jvp(f)


def test_formatting_shows_the_number() -> None:
    def f(x):
        assert f"{x:.2f}" == "1.50" and "tangent" in f"{x}"
        return x

    under_jvp(f)


def test_tensors_are_read_only_in_their_metadata() -> None:
    def f(x):
        for name in ("dtype", "ndim", "size", "aval"):
            with pytest.raises(AttributeError):
                setattr(x, name, None)
        assert x.size == 6 and x.nbytes == 48 and x.itemsize == 8 and x.ndim == 2
        return x

    under_jvp(f, np.ones((2, 3)))


def test_copies() -> None:
    """Copying inside a transform keeps the tangent."""
    _value, tangent = under_jvp(lambda x: copy.copy(x) * x)
    assert tangent == 3.0


# ── who answers a call ───────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "call", [np.multiply, lambda a, b: np.einsum("i,i->i", a, b), lambda a, b: np.hypot(a, b) ** 2]
)
@pytest.mark.parametrize("swapped", [False, True])
def test_the_innermost_transform_answers_wherever_its_tensor_stands(call, swapped) -> None:
    """Perturbation confusion: d/dx [x · d/dy (x·y)] = 2x whichever factor is named first."""
    x = np.array([3.0, 5.0])
    ordered = (lambda a, b: call(b, a)) if swapped else call
    inner = lambda x: da.jvp(lambda y: ordered(x, y), (2.0 * x,), (np.ones(2),))[1]
    h = 1e-6
    expected = (inner(x + h) - inner(x - h)) / (2 * h)
    np.testing.assert_allclose(da.jvp(inner, (x,), (np.ones(2),))[1], expected, atol=1e-8)
    np.testing.assert_allclose(da.vmap(lambda s: inner(s * x))(np.array([1.0, 2.0]))[1], inner(2.0 * x))


def test_methods_of_ufuncs_and_their_options_are_no_plain_calls() -> None:
    x = np.array([3.0, 5.0])

    def f(x):
        first = np.add.reduce(x) + np.sum(np.multiply.outer(x, x)) + np.sum(np.add.accumulate(x))
        return first + np.sum(np.multiply(x, 2.0, where=np.array([True, False]), out=np.zeros_like(x)))

    assert da.jvp(f, (x,), (x,)) == (8.0 + 64.0 + 11.0 + 6.0, 8.0 + 128.0 + 11.0 + 6.0)
    assert da.jvp(lambda x: np.sin(x, dtype=np.float32), (x,), (x,))[1].dtype == np.float32


@pytest.mark.filterwarnings("ignore:np.array")
def test_lists_and_object_arrays_beside_a_tensor() -> None:
    x = np.array([3.0, 5.0])
    np.testing.assert_array_equal(under_jvp(lambda x: np.add(x, [1.0, 2.0]), x)[0], [4.0, 7.0])
    np.testing.assert_array_equal(under_jvp(lambda x: np.add([1.0, 2.0], x), x)[1], [1.0, 1.0])

    def f(x):
        objects = np.empty(2, object)
        objects[:] = [x[1], 1.0]
        return np.multiply(x, objects)

    value, tangent = under_jvp(f, x)
    np.testing.assert_array_equal(value, [15.0, 5.0])
    np.testing.assert_array_equal(tangent, [8.0, 1.0])


class Asked:
    """An array of another library, which answers NumPy's functions."""

    def __array_function__(self, function, types, args, kwargs):
        return f"asked for {function.__name__}"


class Silent(Asked):
    """One that leaves the answer to others."""

    def __array_function__(self, function, types, args, kwargs):
        return NotImplemented


@pytest.mark.filterwarnings("ignore::dualad.boundary.swallowed.RefusalSwallowedWarning")
def test_other_libraries_get_their_turn_in_functions_too() -> None:
    def f(x):
        assert np.concatenate([x, Asked()]) == "asked for concatenate"
        assert np.concatenate([Asked(), x]) == "asked for concatenate"
        for kind in (Silent, type("Axis", (Silent,), {})):
            with pytest.raises(TypeError, match="no implementation found"):
                np.concatenate([x, kind()])
        with pytest.raises(da.errors.ForeignArrayError):
            np.concatenate([x, np.ma.masked_array([1.0])])
        with pytest.raises(da.errors.ForeignArrayError):
            np.concatenate([np.ma.masked_array([1.0]), x])
        return np.concatenate([x, np.asarray([7.0]).view(Marked)])

    value, tangent = under_jvp(f, np.array([3.0, 5.0]))
    np.testing.assert_array_equal(value, [3.0, 5.0, 7.0])
    np.testing.assert_array_equal(tangent, [1.0, 1.0, 0.0])


class Marked(np.ndarray):
    """A class of arrays with nothing of its own."""


def test_arrays_like_a_tensor_are_tensors() -> None:
    def f(x):
        a = np.zeros(2, like=x)
        a[:] = x
        return np.asarray([1.0, 2.0], like=x) * a + np.full(2, 3.0, like=x)

    value, tangent = under_jvp(f, np.array([3.0, 5.0]))
    np.testing.assert_array_equal(value, [6.0, 13.0])
    np.testing.assert_array_equal(tangent, [1.0, 2.0])


@pytest.mark.filterwarnings("ignore::dualad.boundary.swallowed.RefusalSwallowedWarning")
def test_what_a_tensor_says_of_itself() -> None:
    def f(x):
        assert (x.ndim, x.size, x.itemsize, x.nbytes) == (2, 6, 8, 48)
        assert f"{x}" == repr(x)
        return x

    under_jvp(f, np.ones((3, 2)))

    def g(x):
        with pytest.raises(ConversionError, match=r"debug\.print\(.x = "):
            f"{x:.3f}"
        return x

    da.trace(g, np.ones(2))


@pytest.mark.filterwarnings("ignore::dualad.boundary.swallowed.RefusalSwallowedWarning")
def test_truth_and_numbers_of_an_escaped_tensor() -> None:
    kept = []
    da.vmap(lambda x: kept.append(x) or x)(np.ones(2))
    for ask in (bool, float, np.asarray):
        with pytest.raises(da.errors.EscapedTensorError):
            ask(kept[0])
    assert "escaped" in repr(kept[0])

    def f(x):
        with pytest.raises(da.errors.BranchError, match="stands for several values"):
            bool(np.stack([x, x]) > 0)
        return x

    da.vmap(f)(np.ones(2))


@pytest.mark.plain
@pytest.mark.filterwarnings("ignore::dualad.boundary.swallowed.RefusalSwallowedWarning")
def test_float_by_name_and_by_a_write_are_told_apart() -> None:
    def f(x, out):
        with pytest.raises(ConversionError, match=r"^\S+ float\(\) was called on") as asked:
            float(x)
        assert "math.sin" in asked.value.instead
        with pytest.raises((ConversionError, PlainBufferError, ValueError)) as written:
            out[0] = x
        refusal = written.value if isinstance(written.value, da.errors.DualadError) else written.value.__cause__
        assert "np.zeros_like(x)" in refusal.instead
        return x

    da.trace(lambda x: f(x, np.zeros(2)), 1.0)


@pytest.mark.filterwarnings("ignore::dualad.boundary.swallowed.RefusalSwallowedWarning")
def test_masked_arrays_are_refused_where_they_are_computed_with() -> None:
    masked = np.ma.masked_array([1.0, 2.0], [False, True])

    def f(x):
        for compute in (lambda: masked + x, lambda: x * masked, lambda: np.ma.add(x, masked)):
            with pytest.raises(da.errors.ForeignArrayError, match=r"masked array|MaskedArray"):
                compute()
        return x

    under_jvp(f, np.ones(2))


def test_a_tensor_is_found_wherever_it_stands() -> None:
    def f(x):
        objects = np.array([None, 1.0, x], object) if not x.shape else None
        for values in ((2.0, x), ([1.0, [x]],), ({"a": 1.0, "b": (x,)},), (np.ones(2), objects)):
            assert tracer_in(*values) is x
        assert tracer_in(2.0, [1.0], {"a": ()}, np.ones(2)) is None
        return x

    under_jvp(f, 1.5)


@pytest.mark.filterwarnings("ignore::dualad.boundary.swallowed.RefusalSwallowedWarning")
def test_what_is_no_index_says_how_to_make_one() -> None:
    def f(x, i):
        with pytest.raises(ConversionError, match=r"operator\.index") as asked:
            operator.index(x)
        assert "int(round(x))" in asked.value.instead
        with pytest.raises(ConversionError, match=r"operator\.index") as asked:
            [1, 2, 3][i]
        assert "np.asarray(array, like=x)[x]" in asked.value.instead
        return x

    da.trace(f, 1.5, 1)


def test_a_tensor_half_made_can_be_shown() -> None:
    """A debugger shows what it finds, in the middle of a constructor too."""
    assert repr(object.__new__(da.Dual)).startswith("<Dual tensor that can't be shown: AttributeError")


@pytest.mark.parametrize("transform", [da.jit, lambda f: lambda n: da.vmap(f)(np.array([n, n]))])
def test_bit_length_is_refused_with_words(transform):
    with pytest.raises(ConversionError, match=r"bit_length\(\)") as caught:
        transform(lambda n: n.bit_length())(5)
    assert "np.frexp" in caught.value.instead
    n = np.array([0, 1, 2, 3, 8, -5])
    assert da.vmap(lambda n: np.frexp(n)[1])(n).tolist() == [int(k).bit_length() for k in n]
