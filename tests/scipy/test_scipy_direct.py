"""SciPy's own functions called on tensors, in its default setting and with `SCIPY_ARRAY_API=1`.

Every ufunc that has a rule works in both settings under its public name. The functions that are not ufuncs
(`tests/oracles/scipy_calls.py`) and their outcomes in both settings are listed in `direct.json`, of which
`docs/generate.py` makes a table.

By default SciPy asks for plain arrays; transforms lift what refuses by themselves, so that `dualad.scipy` answers.
With the flag all arrays of a call must be tensors; beside them may be numbers. "No" is an error, never a number without
its derivative. The setting is read when SciPy is imported, so each is tried in a process of its own. Releases of SciPy
differ in what they offer; the table is checked against the one that it was made for, and the rule that nothing is
silently wrong against any.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
MADE_FOR = (1, 17)

YES, NO = "yes", "no"

#: name -> outcome by default, outcome with the flag
EXPECTED = json.loads((Path(__file__).parent / "direct.json").read_text())


def outcome(f) -> str:
    """Try one function under jvp, vjp and vmap: "yes", "no: ..." or "wrong: ..."."""
    import dualad as da
    from tests.oracles import differences
    from tests.oracles.arrays import close, pairing

    x, t = np.array([0.31, 0.47, 0.86, 0.59, 0.72]), np.array([0.5, -0.3, 0.8, 0.1, -0.6])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            value, tangent = da.jvp(f, (x,), (t,))
            reverse, pull = da.vjp(f, x)
            back = pull(np.ones_like(reverse))
            lanes = da.vmap(f)(np.stack([x, x + 0.1]))
        except Exception as error:  # any error is an answer; silence is none
            return f"{NO}: {type(error).__name__}"
    try:
        close(value, f(x), "value")
        differences.compare(tangent, differences.along(f, (x,), (t,)), "tangent")
        close(pairing(back, [t]), pairing([np.ones_like(reverse)], [tangent]), "pairing", rtol=1e-9)
        close(lanes, np.stack([f(x), f(x + 0.1)]), "lanes")
    except AssertionError as error:
        return f"wrong: {error}"
    return YES


def has_rule(f, x, i: int) -> bool:
    """Say whether a ufunc can be differentiated in one of its arguments."""
    import dualad as da
    from dualad.errors import RuleMissingError

    try:
        da.jvp(lambda x: f(x, i), (x,), (x,))
    except RuleMissingError:
        return False
    return x.dtype.kind in "fc"


def ufuncs() -> dict:
    """Try every ufunc that has a rule, by its public name, on one of its samples; name -> error, or nothing."""
    import scipy.special
    import scipy.special._ufuncs as raw

    import dualad as da
    import dualad.ops.special
    from dualad.core.tables import UFUNCS
    from dualad.ops.samples import realize
    from tests.oracles.arrays import close, leaves

    failures, count = {}, 0
    for name in dir(scipy.special):
        ufunc = getattr(raw, name, None)
        op = UFUNCS.get(ufunc) if isinstance(ufunc, np.ufunc) and not name.startswith("_") else None
        if op is None or name == "lambertw":
            continue
        count += 1
        # SciPy's namespaces do not mix: beside tensors only numbers, no plain arrays.
        args = realize(op)[1].args
        numbers = [a.ravel()[0].item() for a in args]

        def f(function, x, i, numbers=numbers):
            return function(*numbers[:i], x, *numbers[i + 1 :])

        def direct(x, i, ufunc=ufunc, f=f):
            return f(ufunc, x, i)

        i = next(i for i in reversed(range(len(args))) if has_rule(direct, args[i], i))
        moving = args[i]
        try:
            found = da.jvp(lambda x, name=name: f(getattr(scipy.special, name), x, i), (moving,), (moving,))
            close(leaves(found), leaves(da.jvp(lambda x, name=name: f(ufunc, x, i), (moving,), (moving,))), name)
            stacked = np.stack([moving, moving])
            close(
                leaves(da.vmap(lambda x, name=name: f(getattr(scipy.special, name), x, i))(stacked))[0][0],
                leaves(found)[0],
                name,
            )
        except Exception as error:
            failures[name] = f"{type(error).__name__}: {error}"
    return {"count": count, "failures": failures}


def main() -> None:
    """Print all outcomes of this process's setting."""
    import dualad.numpy  # noqa: F401  (gives tensors their namespace)
    from tests.oracles.scipy_calls import CALLS

    print(json.dumps({"functions": {name: outcome(f) for name, f in CALLS.items()}, "ufuncs": ufuncs()}))


@pytest.fixture(scope="module", params=[0, 1], ids=["default", "SCIPY_ARRAY_API=1"])
def setting(request) -> tuple[int, dict]:
    # Any value of the variable, "0" too, is a yes.
    env = {name: value for name, value in os.environ.items() if name != "SCIPY_ARRAY_API"}
    if request.param:
        env["SCIPY_ARRAY_API"] = "1"
    done = subprocess.run(
        [sys.executable, "-c", "import tests.scipy.test_scipy_direct as t; t.main()"],
        cwd=ROOT, env=env, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    return request.param, json.loads(done.stdout.splitlines()[-1])


def test_no_function_is_silently_wrong(setting) -> None:
    found = setting[1]["functions"]
    assert set(found) == set(EXPECTED)
    assert not {name: what for name, what in found.items() if what.startswith("wrong")}


def test_the_table_holds(setting) -> None:
    import scipy

    flag, found = setting
    if tuple(map(int, scipy.__version__.split(".")[:2])) == MADE_FOR:
        differs = {n: what for n, what in found["functions"].items() if what.partition(":")[0] != EXPECTED[n][flag]}
    else:  # another release may offer more or less by the flag; what it offers without is ours to keep
        differs = {n: what for n, what in found["functions"].items() if YES in EXPECTED[n][:1] and what != YES}
    assert not differs


def test_every_ufunc_with_a_rule_works_by_its_public_name(setting) -> None:
    found = setting[1]["ufuncs"]
    assert found["count"] > 100
    assert not found["failures"]
