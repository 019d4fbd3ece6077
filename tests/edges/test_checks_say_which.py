"""Mistakes in what is checked: the pytest marker names the test, and `dualad check` says each error once.

Not for: the check itself (``tests/testing``), or the table of a check that runs (``tests/cli``).
"""

from __future__ import annotations

import textwrap

import pytest

from dualad.cli.main import main

pytest_plugins = ["pytester"]

MARKED = """
    import pytest

    @pytest.mark.dualad({})
    def test_area(x):
        return x * 2.0
"""


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("", "You gave no points"),
        ("point=[1.0]", r"no option point= (did you mean points=?)"),
        ("points=[1.0], mode='forward'", r"no option mode= (did you mean modes=?)"),
        ("points=[1.0], wobble=3", r"no option wobble=."),
        ("[1.0], 2", "only points may be given by position"),
        ("points=[(1.0, 2.0)]", "points have 2 arguments"),
        ("points=[{'y': 1.0}]", "a point with the names y"),
        ("points=5.0", "You gave points=5.0 of type float"),
        ("points=[1.0], oracle='finite'", "You named the oracle 'finite'"),
        ("points=[1.0], modes='forwrd'", "forwrd"),
        ("points=[1.0], skip={'hpv': 'no'}", "hpv"),
    ],
)
def test_the_marker_names_the_test(pytester: pytest.Pytester, options: str, said: str) -> None:
    pytester.makepyfile(textwrap.dedent(MARKED).format(options))
    result = pytester.runpytest_inprocess("-p", "pytest_dualad")
    text = result.stdout.str()
    assert said in text and "test_area" in text and "INTERNAL" not in text and "site-packages" not in text
    assert not result.parseoutcomes().get("passed")


BROKEN = """
    import dualad as da
    import numpy as np

    def unknown(x):
        return undefined_name * x

    @da.plain
    def buffer(x):
        b = np.zeros(2)
        b[0] = x
        return b.sum()

    def branches(x):
        return np.union1d(x, x).sum()

    __dualad__ = dict.fromkeys(["unknown", "buffer", "branches"], [(1.0,), (2.0,)])
"""


def test_three_broken_functions_print_three_errors(tmp_path, capsys) -> None:
    (tmp_path / "broken.py").write_text(textwrap.dedent(BROKEN))
    assert main(["check", str(tmp_path / "broken.py")]) == 1
    text = capsys.readouterr().out
    failed = [line for line in text.splitlines() if line.startswith("FAILED")]
    assert len(failed) == 3, text
    assert all("and 1 other: value" in line for line in failed)
    assert "undefined_name" in failed[0] and "float()" in failed[1] and "union1d" in failed[2]
    assert text.count("  error ") <= 6, "a line for each function at each point"
