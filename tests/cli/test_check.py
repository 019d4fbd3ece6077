"""`dualad check` as its users run it: exit status, what it names, and the files it writes."""

from __future__ import annotations

import json
import textwrap

import numpy as np
import pytest

from dualad.cli.main import main

RIGHT = """
    import numpy as np

    def spring(x, stiffness):
        return 0.5 * stiffness * np.sum(x * x)

    def wave(x):
        return np.sin(x) * np.exp(x)

    def undeclared(x):
        return x * x

    __dualad__ = {
        "spring": [(np.array([1.0, -2.0]), 3.0)],
        "wave": lambda: [(np.array([0.3, 0.9]),), (np.array([-1.0, 2.0, 0.0]),)],
    }
"""

PLANTED = """
    import numpy as np
    import dualad as da

    @da.custom_jvp
    def wrong_sin(x):
        return np.sin(x)

    @wrong_sin.defjvp
    def wrong_sin_rule(primals, tangents):
        return wrong_sin(*primals), 1.01 * np.cos(*primals) * tangents[0]

    def right(x):
        return np.sin(x) * x

    def wrong(x):
        return wrong_sin(x) * x

    __dualad__ = {"right": [(np.array([0.3, 0.9]),)], "wrong": [(np.array([0.3, 0.9]),)]}
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "right.py").write_text(textwrap.dedent(RIGHT))
    return tmp_path


@pytest.fixture
def planted(folder):
    path = folder / "planted.py"
    path.write_text(textwrap.dedent(PLANTED))
    return path


def test_right_functions_exit_0(folder, capsys):
    assert main(["check", str(folder / "right.py")]) == 0
    out = capsys.readouterr().out
    assert "2 functions, 3 points, 27 rows: 27 ok" in out
    for word in ("right.py:spring at point 1 (float64[2], 3.0): 3 -> 1", "vmap-vjp", "complex-step", "exact"):
        assert word in out


@pytest.mark.slow
def test_one_function_and_folders(folder, capsys):
    assert main(["check", f"{folder / 'right.py'}:wave", "-q"]) == 0
    assert "1 function, 2 points" in capsys.readouterr().out
    assert main(["check", str(folder), "-q"]) == 0
    assert "2 functions, 3 points" in capsys.readouterr().out


def test_points_from_the_command_line(folder, capsys):
    np.savez(folder / "p.npz", stiffness=2.0, x=np.array([1.0, 2.0]))
    function = f"{folder / 'right.py'}:spring"
    assert main(["check", function, "--at", "[[1.0, 2.0, 3.0], 2.0]", "--at", str(folder / "p.npz"), "-q"]) == 0
    assert "2 points" in capsys.readouterr().out


def test_a_planted_error_exits_1_and_is_named(planted, capsys):
    assert main(["check", str(planted)]) == 1
    out = capsys.readouterr().out
    assert "FAILED" in out and "WRONG" in out
    for quantity in ("jvp", "vjp", "jacfwd", "jacrev", "hvp", "vmap-jvp", "vmap-vjp"):
        for oracle in ("jax", "differences", "complex-step"):
            assert f"planted.py:wrong at point 1 (float64[2]): {quantity} disagrees with {oracle}" in out
    assert "d out[0] / d x[0] is" in out or "d out[1] / d x[1] is" in out
    assert "planted.py:right at point 1 (float64[2]): jvp" not in out


@pytest.mark.plain
def test_a_function_that_raises_inside_dualad_exits_1_with_the_error(folder, capsys):
    (folder / "bad.py").write_text(
        "import numpy as np\nimport math\ndef f(x):\n    return math.sin(x) * x\n__dualad__ = {'f': [(1.0,)]}\n"
    )
    assert main(["check", str(folder / "bad.py")]) == 1
    out = capsys.readouterr().out
    assert "error" in out and "FAILED" in out and "bad.py:4" in out
    assert "Traceback" not in out


def test_json_on_standard_output_is_all_there_is(folder, capsys):
    assert main(["check", f"{folder / 'right.py'}:wave", "--json", "-"]) == 0
    captured = capsys.readouterr()
    data = json.loads(captured.out)
    assert data["ok"] is True and data["failures"] == [] and len(data["reports"]) == 2
    report = data["reports"][0]
    np.testing.assert_allclose(report["jacobian"][0][1], 0.0)
    rows = {row["quantity"]: row for row in report["rows"]}
    assert rows["jvp"]["status"] == "ok" and rows["jvp"]["seconds"] > 0
    assert {o["oracle"] for o in rows["vjp"]["outcomes"]} == {"jax", "differences", "complex-step", "dot"}
    assert "wave" in captured.err, "the table goes to standard error then"


@pytest.mark.slow
def test_all_files_of_a_failing_run(planted, capsys):
    out = planted.parent / "made" / "deep"
    files = {kind: out / f"report.{kind}" for kind in ("json", "html")}
    status = main(["check", str(planted), "--json", str(files["json"]), "--html", str(files["html"])])
    assert status == 1
    data = json.loads(files["json"].read_text())
    assert data["ok"] is False and any("wrong" in text for text in data["failures"])
    bad = [o["mismatch"] for r in data["reports"] for row in r["rows"] for o in row["outcomes"] if o["mismatch"]]
    assert bad and all(abs(m["got"] / m["expected"] - 1) > 1e-4 for m in bad)
    assert len(data["failures"]) >= 7
    page = files["html"].read_text()
    assert page.startswith("<!doctype html>") and page.count("<svg") == 2 and "disagrees with" in page


def test_one_oracle_only(folder, capsys):
    assert (
        main(["check", f"{folder / 'right.py'}:wave", "--oracle", "differences", "--oracle", "loop", "--json", "-"])
        == 0
    )
    data = json.loads(capsys.readouterr().out)
    named = {o["oracle"] for r in data["reports"] for row in r["rows"] for o in row["outcomes"]}
    assert named == {"differences", "loop", "numpy"}


def test_tolerances_and_skips(planted, capsys):
    assert main(["check", f"{planted}:wrong", "--rtol", "0.1", "-q"]) == 0
    skips = [w for q in ("jvp", "vjp", "jacfwd", "jacrev", "hvp", "vmap-jvp", "vmap-vjp") for w in ("--skip", q)]
    assert main(["check", f"{planted}:wrong", *skips]) == 0
    assert "skipped" in capsys.readouterr().out


def test_declared_skips(folder, capsys):
    (folder / "branch.py").write_text(
        "import numpy as np\ndef f(x):\n    return np.sin(x) if x > 0 else x\n"
        "__dualad__ = {'f': {'points': [(1.0,)], 'skip': {'vmap-value': 'branches on the value'}}}\n"
    )
    assert main(["check", str(folder / "branch.py"), "--json", "-"]) == 0
    rows = {row["quantity"]: row for row in json.loads(capsys.readouterr().out)["reports"][0]["rows"]}
    assert rows["vmap-value"]["status"] == "skipped" and rows["vmap-value"]["message"] == "branches on the value"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["{folder}/missing.py:f"], "no such file"),
        (["{folder}/right.py:missing"], "no such name"),
        (["{folder}/right.py:undeclared"], "no point to take them at"),
        (["{folder}/right.py", "--at", "[1.0]"], "--at for 2 functions"),
        (["{folder}/right.py:wave", "--at", "[[1, 2]]"], "floating-point"),
        (["{folder}/right.py:wave", "--at", "nonsense"], "neither a .npy"),
        (["{folder}/right.py:wave", "--html", "{folder}"], "is a folder"),
        (["{folder}/broken.py"], "does not import: ZeroDivisionError"),
        (["no_such_module_here:f"], "no module named"),
    ],
)
def test_bad_usage_exits_2_and_teaches(folder, capsys, arguments, message):
    (folder / "broken.py").write_text("1 / 0\n__dualad__ = {}\n")
    assert main(["check", *(word.format(folder=folder) for word in arguments)]) == 2
    captured = capsys.readouterr()
    assert message in captured.err and "Why:" in captured.err and "Instead:" in captured.err
    assert "Traceback" not in captured.err and captured.out == ""


@pytest.mark.parametrize(
    "arguments",
    [["--rtol", "-1"], ["--rtol", "nan"], ["--oracle", "astrology"], ["--skip", "everything"], ["--seed", "-1"]],
)
def test_bad_options_exit_2(folder, capsys, arguments):
    with pytest.raises(SystemExit) as caught:
        main(["check", str(folder / "right.py"), *arguments])
    assert caught.value.code == 2 and "usage:" in capsys.readouterr().err


FAST = ("--oracle", "differences", "--oracle", "loop")


def test_patterns_and_names_that_overlap_are_checked_once(folder, capsys):
    (folder / "deep" / "er").mkdir(parents=True)
    (folder / "deep" / "er" / "model_x.py").write_text("def g(x):\n    return x * x\n__dualad__ = {'g': [(2.0,)]}\n")
    (folder / "model_y.py").write_text("raise RuntimeError('runs, but declares nothing')\n")
    pattern = str(folder / "**" / "model_*.py")
    assert main(["check", pattern, str(folder), "--list"]) == 0
    out = capsys.readouterr().out
    assert out.count("model_x.py:g") == 1 and "3 functions, 4 to check" in out
    assert main(["check", pattern + ":g", "--list"]) == 2, "the other file runs now, and raises"


@pytest.mark.parametrize(
    "target", ["{folder}/plain.py", "{folder}/empty", "{folder}/**/nothing*.py", "{folder}/pl*.py"]
)
def test_nothing_to_check_exits_3(folder, capsys, target):
    (folder / "plain.py").write_text("def f(x):\n    return x\n")
    (folder / "empty").mkdir()
    assert main(["check", str(folder / "right.py"), target.format(folder=folder)]) == 3
    err = capsys.readouterr().err
    assert "Why:" in err and "Instead:" in err


def test_samples_near_the_points(folder, capsys):
    assert main(["check", f"{folder / 'right.py'}:spring", "--samples", "2", "--json", "-", *FAST]) == 0
    reports = json.loads(capsys.readouterr().out)["reports"]
    assert [r["point"].split(" (")[0] for r in reports] == ["point 1", "point 1, sample 1", "point 1, sample 2"]
    first, *others = [np.array(r["jacobian"]) for r in reports]
    assert all(0 < np.max(np.abs(j / first - 1)) < 0.2 for j in others) and not np.array_equal(*others)


def test_order_1_leaves_second_derivatives_out(folder, capsys):
    assert main(["check", f"{folder / 'right.py'}:spring", "--order", "1", "--json", "-", *FAST]) == 0
    rows = {row["quantity"]: row for row in json.loads(capsys.readouterr().out)["reports"][0]["rows"]}
    assert rows["hvp"]["status"] == "skipped" and rows["hvp"]["message"] == "order 1 was asked for"


def test_order_3_checks_derivatives_of_derivatives(folder, capsys):
    assert main(["check", f"{folder / 'right.py'}:spring", "--order", "3", "--json", "-", *FAST]) == 0
    rows = [row["quantity"] for row in json.loads(capsys.readouterr().out)["reports"][0]["rows"]]
    assert rows[-2:] == ["hvp over forward", "hvp over reverse"]
    assert main(["check", f"{folder / 'right.py'}:spring", "--order", "0", *FAST]) == 2
    assert "Write order=1 or more" in capsys.readouterr().err


def test_fail_fast_stops_at_the_first_failure(planted, capsys):
    targets = [f"{planted}:wrong", f"{planted}:right"]
    assert main(["check", *targets, "--fail-fast", "-q", *FAST]) == 1
    assert "1 function, 1 point" in (out := capsys.readouterr().out)
    assert "stopped at the first failure, 1 not checked" in out


def test_what_a_function_prints_stays_out_of_the_json(folder, capsys):
    (folder / "chatty.py").write_text("def f(x):\n    print('hello')\n    return x * x\n__dualad__ = {'f': [(1.0,)]}\n")
    assert main(["check", str(folder / "chatty.py"), "--json", "-", *FAST]) == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out)["ok"] and "hello" in captured.err


def test_the_one_cause_stands_above_what_follows_from_it(tmp_path, capsys):
    file = tmp_path / "asks.py"
    file.write_text(
        "import numpy as np\ndef f(x):\n    if hasattr(x, 'level'):\n"
        "        return np.sum(x**3)\n    return np.sum(x**2)\n"
    )
    assert main(["check", f"{file}:f", "--at", "[[1.0, 2.0]]"]) == 1
    title, cause, line, *_, failed, _, _, hence, _, _ = capsys.readouterr().out.splitlines()
    assert title.startswith(f"{file}:f at point 1") and cause == "  the value is 5, and 9 under the transform."
    assert f"{file}:3: if hasattr(x, 'level'):" in line
    assert failed.startswith("FAILED") and failed.count("disagrees") == 0 and hence.startswith("  Hence: 8 other rows")
