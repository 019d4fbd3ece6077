"""The pytest plugin of dualad: derivatives of a function, checked in one line of a test.

    @pytest.mark.dualad(points=[(np.array([0.3, 1.2]), 2.0)])
    def test_area(x, y):
        return np.sin(x) * y

    def test_other(check_derivatives):
        check_derivatives(mymodule.f, (np.array([0.3, 1.2]), 2.0))

pytest loads this module at its start (entry point ``pytest11``), so it stands outside the package and imports neither
dualad nor NumPy until a test asks for them. Not for the check (`dualad.testing.pytest_plugin`).
"""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable
from typing import Any

import pytest

__all__ = ["check_derivatives"]

_MARKER = (
    "dualad(points, oracle=None, order=2, modes=('forward', 'reverse'), batched=True, rtol=1e-7, atol=1e-12, seed=0,"
    " skip=None): check the derivatives of what the function returns at the given arguments; without parameters it"
    " returns the function to check (see the documentation of dualad, How to: check in CI)"
)


_OPTIONS = (
    "points", "oracle", "order", "modes", "batched", "rtol", "atol", "seed", "skip", "name", "jacobian_limit",
)  # fmt: skip


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options; the ini option is a list of oracles."""
    group = parser.getgroup("dualad", "derivatives (dualad)")
    group.addoption(
        "--dualad-oracle",
        action="append",
        metavar="NAME",
        help="who judges derivatives: jax, differences, complex-step, dot, loop (repeat it; default: all but jax)",
    )
    group.addoption("--dualad-seed", type=int, metavar="N", help="seed of the random tangents and cotangents")
    parser.addini("dualad_oracle", "who judges derivatives, one name per word", type="args", default=[])


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker."""
    config.addinivalue_line("markers", _MARKER)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Make one test per point."""
    marker = metafunc.definition.get_closest_marker("dualad")
    names = list(inspect.signature(metafunc.function).parameters)
    if metafunc.cls is not None:
        own = inspect.getattr_static(metafunc.cls, metafunc.function.__name__, None)
        names = names if isinstance(own, staticmethod) else names[1:]
    if marker is None:
        return
    where = f"@pytest.mark.dualad on {metafunc.definition.name}({', '.join(names)})"
    _check_options(marker, where)
    if not names:
        return
    points = _points(marker, names, where)
    lengths = {len(point) for point in points}
    if len(lengths) > 1 or max(lengths) > len(names):
        pytest.fail(
            f"{where}: points have {', '.join(map(str, sorted(lengths)))} arguments.\n"
            "  Why: a point is the tuple of the first parameters; the others are fixtures.\n"
            "  Instead: write points=[(a, b), ...] with as many as there are parameters.",
            pytrace=False,
        )
    ids = [f"point{k}" for k in range(1, len(points) + 1)]
    metafunc.parametrize(names[: lengths.pop()], points, ids=ids)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Check the derivatives of a marked test in place of calling it."""
    marker = pyfuncitem.get_closest_marker("dualad")
    if marker is None:
        return None
    from dualad.testing.pytest_plugin import function_under_check

    options = {name: value for name, value in marker.kwargs.items() if name != "points"}
    options.setdefault("name", pyfuncitem.name)
    names = list(inspect.signature(pyfuncitem.obj).parameters)
    points = _points(marker, names, f"@pytest.mark.dualad on {pyfuncitem.name}")
    if not names:
        _check(pyfuncitem.config, pyfuncitem.obj(), points, options)
        return True
    moving = names[: len(points[0])]
    held = {name: pyfuncitem.funcargs[name] for name in names[len(moving) :]}
    f = function_under_check(pyfuncitem.obj, moving, held)
    _check(pyfuncitem.config, f, [tuple(pyfuncitem.funcargs[name] for name in moving)], options)
    return True


@pytest.fixture
def check_derivatives(pytestconfig: pytest.Config) -> Callable[..., None]:
    """Check a function's derivatives as `dualad check` does: ``check_derivatives(f, args, order=1, oracle="jax")``."""

    def check(f: Callable, args: Any = None, *, points: Any = None, **options: Any) -> None:
        __tracebackhide__ = True
        given = points if args is None else [tuple(args) if isinstance(args, (tuple, list)) else (args,)]
        _check(pytestconfig, f, given, options)

    return check


def _points(marker: pytest.Mark, names: list[str], where: str) -> list[tuple[Any, ...]]:
    from dualad.errors import DualadError
    from dualad.testing.pytest_plugin import as_points

    try:
        return as_points(marker.kwargs.get("points", marker.args[0] if marker.args else None), names)
    except DualadError as error:
        words = str(error)
    pytest.fail(f"{where}: {words}", pytrace=False)


def _check_options(marker: pytest.Mark, where: str) -> None:
    """Refuse an option that the marker does not have, before anything runs."""
    unknown = sorted(set(marker.kwargs) - set(_OPTIONS))
    if unknown or len(marker.args) > 1:
        near = {name: difflib.get_close_matches(name, _OPTIONS, 1) for name in unknown}
        said = ", ".join(f"{n}= (did you mean {near[n][0]}=?)" if near[n] else f"{n}=" for n in unknown)
        pytest.fail(
            f"{where}: {f'there is no option {said}' if unknown else 'only points may be given by position'}.\n"
            f"  Why: the options are {', '.join(_OPTIONS)}.\n"
            "  Instead: write points=[...] and any of the others by name.",
            pytrace=False,
        )


def _check(config: pytest.Config, f: Callable, points: Any, options: dict[str, Any]) -> None:
    __tracebackhide__ = True
    from dualad.errors import DualadError
    from dualad.testing.pytest_plugin import DEFAULT_ORACLES, as_points, check_points

    asked = config.getoption("dualad_oracle") or config.getini("dualad_oracle") or DEFAULT_ORACLES
    options = dict(options)
    if options.get("oracle") is None:
        options["oracle"] = asked
    if (seed := config.getoption("dualad_seed")) is not None:
        options["seed"] = seed
    try:
        words = check_points(f, as_points(points, []), **options)
    except DualadError as error:
        words = str(error)
    if words:
        pytest.fail(words, pytrace=False)
