"""TARGET in all its forms, and each way to get it wrong."""

from __future__ import annotations

import sys
import textwrap

import numpy as np
import pytest

from dualad.cli.targets import find_targets
from dualad.errors import LoadingError, UsageError

SPRINGS = """
    import numpy as np

    def spring(x, stiffness):
        return 0.5 * stiffness * np.sum(x**2)

    def rates(t, y):
        return -y

    class Model:
        def energy(self, x):
            return np.sum(x)

    model = Model()
    constant = 3.0
    __dualad__ = {
        "spring": [(np.array([1.0, -2.0]), 3.0), (np.zeros(2), 1.0)],
        "rates": lambda: [(0.0, np.ones(2))],
        "model.energy": {"points": [(np.ones(2),)], "skip": {"hvp": "linear"}},
    }
"""


@pytest.fixture
def springs(tmp_path):
    path = tmp_path / "springs.py"
    path.write_text(textwrap.dedent(SPRINGS))
    return path


def test_one_function(springs):
    (target,) = find_targets(f"{springs}:spring")
    assert target.name == "spring" and target.label == f"{springs}:spring"
    assert len(target.points) == 2 and target.function(*target.points[0]) == 7.5


def test_all_declared_functions_of_a_file(springs):
    spring, rates, energy = find_targets(str(springs))
    assert (spring.name, rates.name, energy.name) == ("spring", "rates", "model.energy")
    np.testing.assert_array_equal(rates.points[0][1], [1.0, 1.0])
    assert energy.function(np.ones(2)) == 2.0 and energy.skip == {"hvp": "linear"}


def test_a_function_without_declared_points(springs):
    springs.write_text(springs.read_text() + "\ndef other(x):\n    return x\n")
    (target,) = find_targets(f"{springs}:other")
    assert target.points == ()


def test_a_module_by_name(springs, monkeypatch):
    monkeypatch.syspath_prepend(str(springs.parent))
    assert [t.label for t in find_targets("springs:rates")] == ["springs:rates"]
    assert len(find_targets("springs")) == 3


def test_a_module_of_the_current_folder_by_name(tmp_path, monkeypatch):
    (tmp_path / "only_here_module.py").write_text("def f(x):\n    return x\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [p for p in sys.path if p])
    assert find_targets("only_here_module:f")[0].function(2) == 2


def test_a_folder_recursively_without_running_files_that_declare_nothing(springs):
    folder = springs.parent
    (folder / "deep").mkdir()
    (folder / "deep" / "more.py").write_text("def g(x):\n    return x\n__dualad__ = {'g': [(1.0,)]}\n")
    (folder / "explosive.py").write_text("raise RuntimeError('executed')  # mentions __dualad__ only in a comment\n")
    for hidden in (".hidden", "__pycache__", "venv"):
        (folder / hidden).mkdir()
        (folder / hidden / "no.py").write_text("raise RuntimeError('executed')\n__dualad__ = {}\n")
    (folder / "venv" / "pyvenv.cfg").write_text("")
    assert [t.name for t in find_targets(str(folder))] == ["g", "spring", "rates", "model.energy"]


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("{folder}/missing.py:f", "no such file"),
        ("{folder}/missing.py", "no such file"),
        ("no_such_module_anywhere:f", "no module named 'no_such_module_anywhere'"),
        ("no_such_module_anywhere", "no module named 'no_such_module_anywhere'"),
        ("{folder}/springs.py:sprong", "no such name.*spring.*\n.*Did you mean .*springs.py:spring"),
        ("{folder}/springs.py:model.nothing", "no such name"),
        ("{folder}/springs.py:constant", "a float, not a function"),
        ("{folder}/springs.py:", "No function follows the colon"),
        ("{folder}/plain.py", "declares no points"),
        ("{folder}/empty", "No .py file in it declares points"),
        ("", "empty target"),
        ("{folder}/broken.py:f", "does not import: ValueError: at import"),
    ],
)
def test_bad_targets_are_explained(springs, target, message):
    folder = springs.parent
    (folder / "plain.py").write_text("def f(x):\n    return x\n")
    (folder / "broken.py").write_text("raise ValueError('at import')\n")
    (folder / "empty").mkdir()
    with pytest.raises((UsageError, LoadingError), match=message) as caught:
        find_targets(target.format(folder=folder))
    assert "Why:" in str(caught.value) and "Instead:" in str(caught.value)


@pytest.mark.parametrize(
    ("declaration", "message"),
    [
        ("[]", "is a list.*\n.*dictionary"),
        ("{'f': []}", "is empty"),
        ("{'f': 3.0}", "is a float"),
        ("{'f': [1.0]}", "Point 1 .* is a float.*\n.*\n.*\\(x,\\)"),
        ("{'f': lambda: 1 / 0}", "raised ZeroDivisionError"),
        ("{'f': {'points': [(1.0,)], 'extra': 1}}", "has the keys"),
        ("{'f': {'skip': {}}}", "has the keys"),
        ("{'missing': [(1.0,)]}", "no such name"),
        ("{3: [(1.0,)]}", "dictionary from the names"),
    ],
)
def test_bad_declarations_are_explained(tmp_path, declaration, message):
    path = tmp_path / "declared.py"
    path.write_text(f"def f(x):\n    return x\n__dualad__ = {declaration}\n")
    with pytest.raises(UsageError, match=message) as caught:
        find_targets(str(path))
    assert "Instead:" in str(caught.value)
