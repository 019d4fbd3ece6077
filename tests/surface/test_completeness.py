"""Every NumPy name that can reach us has exactly one verdict; what is not covered yet stands in one table."""

import inspect
import types

import numpy as np
import pytest
from numpy.testing import overrides

import dualad as da
from dualad.core.tables import CREATION, FUNCTIONS, UFUNCS, VERDICTS
from dualad.errors import DeclarationError, UnsupportedError
from dualad.ops.kinds import predicate
from dualad.ops.samples import anywhere
from dualad.surface.arguments import function
from dualad.surface.unsupported import NOT_YET, REASONS, public_name, unsupported, verdict_of

NAMES = {
    public_name(f): f
    for f in [*overrides.get_overridable_numpy_array_functions(), *overrides.get_overridable_numpy_ufuncs()]
    if not f.__name__.startswith("_") and not public_name(f).startswith("np._")
}
PUBLIC = [np, np.linalg, np.fft, np.emath]


@pytest.mark.parametrize("name", sorted(NAMES))
def test_every_name_has_a_verdict(name):
    verdict = verdict_of(NAMES[name])
    if verdict is None:
        assert name in NOT_YET, f"{name} has no verdict: declare it, refuse it with a reason, or list it in NOT_YET"
    else:
        assert name not in NOT_YET, f"{name} is covered now: take it out of NOT_YET"
        assert verdict.kind in ("op", "composite", "metadata", "unsupported")


def test_the_table_of_gaps_names_what_exists():
    known = {
        f"{prefix}{n}" for prefix, m in (("np.", np), ("np.linalg.", np.linalg), ("np.fft.", np.fft)) for n in dir(m)
    }
    assert known >= NOT_YET


@pytest.mark.parametrize("name", sorted(n for n, f in NAMES.items() if verdict_of(f) is not None))
def test_a_verdict_is_what_happens(name):
    """A covered name can be called; a refused one cannot, and says why."""
    f = NAMES[name]
    kind = verdict_of(f).kind
    twin = getattr(np, f.__name__, None) if getattr(f, "__module__", "numpy") == "numpy" else None
    handled = (f in FUNCTIONS) + (f in UFUNCS) or twin in FUNCTIONS
    if kind == "unsupported":
        assert not handled
        error = unsupported(f)
        assert error.why
        assert error.instead
    else:
        assert handled == 1 or (not handled and (f in CREATION or twin in CREATION))


def test_a_name_has_exactly_one_meaning():
    """A second one would be a matter of which module is imported last."""
    for known, again in (
        (np.trace, lambda: function(np.trace)(lambda a: a)),
        (np.sin, lambda: function(np.sin)(lambda x: x)),
        (np.sin, lambda: predicate(np.sin, name="sin again", samples=anywhere())),
    ):
        before = (FUNCTIONS.get(known), UFUNCS.get(known), VERDICTS[known])
        with pytest.raises(DeclarationError, match="two meanings"):
            again()
        assert (FUNCTIONS.get(known), UFUNCS.get(known), VERDICTS[known]) == before


def test_reasons_are_for_names_that_are_not_covered():
    for name in REASONS:
        f = getattr(np, name, None)
        assert f not in FUNCTIONS, f"np.{name} is covered: take its reason out"


@pytest.mark.parametrize("name", ["np.save", "np.packbits", "np.shares_memory", "np.union1d"])
def test_a_refused_name_says_what_why_and_what_to_write(name):
    f = NAMES[name]
    with pytest.raises(UnsupportedError) as caught:
        da.jvp(
            lambda x: f("file", x) if name == "np.save" else f(x) if name == "np.packbits" else f(x, x),
            (np.ones(2),),
            (np.ones(2),),
        )
    assert name in str(caught.value)
    assert "Why:" in str(caught.value)
    assert "Instead:" in str(caught.value)


def test_an_unknown_ufunc_is_refused_and_never_returns_the_primal():
    unknown = pytest.importorskip("scipy.special")._ufuncs._cospi
    with pytest.raises(UnsupportedError):
        da.jvp(lambda x: unknown(x), (np.ones(2),), (np.ones(2),))


def _tells_its_signature(f) -> bool:
    """Some compiled functions do not; the keywords of ufuncs are one for all, and handled in one place."""
    try:
        return not isinstance(f, np.ufunc) and bool(inspect.signature(f))
    except (TypeError, ValueError):
        return False


@pytest.mark.parametrize("f", sorted(filter(_tells_its_signature, FUNCTIONS), key=public_name), ids=public_name)
def test_our_parameters_are_numpys(f):
    """A handler takes NumPy's parameters, by NumPy's names and in NumPy's order."""
    theirs = list(inspect.signature(f).parameters.values())
    ours = list(inspect.signature(FUNCTIONS[f]).parameters.values())
    if any(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in [*ours, *theirs]):
        return
    names = [p.name for p in ours]
    # out= is taken off by the tracer, like= by NumPy itself.
    wanted = [p.name for p in theirs if p.name != "like"]
    positional = [p.name for p in theirs if p.kind is p.POSITIONAL_OR_KEYWORD and p.name not in ("like", "out")]
    if "newshape" in positional:  # of np.reshape: the second parameter, which later releases call shape
        assert "newshape" in names
        wanted.remove("newshape")
        positional[positional.index("newshape")] = "shape"
    missing = [n for n in wanted if n not in names and n != "out"]
    assert not missing, f"{public_name(f)} lacks {missing}"
    assert [n for n in names if n in positional] == positional


@pytest.mark.parametrize("f", sorted(FUNCTIONS, key=public_name), ids=public_name)
def test_a_handler_is_annotated(f):
    handler = FUNCTIONS[f]
    if handler.__module__.startswith("dualad."):
        signature = inspect.signature(handler)
        bare = [p.name for p in signature.parameters.values() if p.annotation is p.empty]
        assert not bare, f"{public_name(f)}: {bare}"
        assert signature.return_annotation is not signature.empty


def test_public_functions_that_never_dispatch_are_known():
    """What NumPy does not let us intercept computes on object arrays or refuses; the list is for the docs."""
    dispatching = set(map(id, NAMES.values()))
    silent = {
        f"{m.__name__}.{n}"
        for m in PUBLIC
        for n in getattr(m, "__all__", dir(m))
        if isinstance(getattr(m, n, None), types.FunctionType) and id(getattr(m, n)) not in dispatching
    }
    assert "numpy.isscalar" in silent
    assert "numpy.sum" not in silent


def test_no_verdict_is_for_a_name_of_another_library():
    assert all(public_name(f).startswith(("np.", "scipy.special.")) for f in VERDICTS)
