"""--at in all its forms, and each way to get it wrong."""

from __future__ import annotations

import numpy as np
import pytest

from dualad.cli.targets import describe_point, nearby, parse_point
from dualad.errors import UsageError


def f(x, stiffness, *, label=""):
    return stiffness * x


def test_json_lists_become_arrays():
    x, s = parse_point("[[1.0, 2], 3.5]", f)
    assert isinstance(x, np.ndarray) and x.dtype == float and x.tolist() == [1.0, 2.0]
    assert s == 3.5 and isinstance(s, float)


def test_json_keeps_what_is_no_number():
    (tree,) = parse_point(
        '[{"w": [[1.0], [2.0]], "name": "linear", "on": true, "parts": [[1.0], [1.0, 2.0]], "n": 3}]', f
    )
    assert tree["w"].shape == (2, 1) and tree["name"] == "linear" and tree["on"] is True and tree["n"] == 3
    assert [part.tolist() for part in tree["parts"]] == [[1.0], [1.0, 2.0]]


def test_json_by_name():
    assert parse_point('{"stiffness": 2.0, "x": 1.0}', f) == (1.0, 2.0)


def test_files(tmp_path):
    np.save(tmp_path / "x.npy", np.arange(3.0))
    np.savez(tmp_path / "ordered.npz", np.arange(3.0), np.float64(2.0))
    np.savez(tmp_path / "named.npz", stiffness=2.0, x=np.arange(3.0))
    np.savez(tmp_path / "many.npz", *(np.float64(k) for k in range(12)))
    (tmp_path / "p.json").write_text("[[0.0, 1.0, 2.0], 2.0]")
    (x,) = parse_point(str(tmp_path / "x.npy"), f)
    np.testing.assert_array_equal(x, [0, 1, 2])
    for name in ("ordered.npz", "named.npz", "p.json"):
        x, s = parse_point(str(tmp_path / name), f)
        np.testing.assert_array_equal(x, [0, 1, 2])
        assert s == 2.0
    assert [float(v) for v in parse_point(str(tmp_path / "many.npz"), f)] == list(range(12))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[1.0, 2.0", "neither a .npy"),
        ("3.0", "list of all arguments.*\n.*--at '\\[3.0\\]'"),
        ("missing.npy", "no such file"),
        ('{"y": 1.0}', "names the argument 'y'"),
        ('{"stiffness": 1.0}', "leaves out 'x'"),
        ('{"x": 1.0, "stiffness": 2.0, "label": "a"}', "keyword-only"),
    ],
)
def test_bad_points_are_explained(text, message):
    with pytest.raises(UsageError, match=message) as caught:
        parse_point(text, f)
    assert "Instead:" in str(caught.value)


def test_pickles_are_refused(tmp_path):
    np.save(tmp_path / "o.npy", np.array([{}], dtype=object))
    with pytest.raises(UsageError, match="pickled objects are refused"):
        parse_point(str(tmp_path / "o.npy"), f)


def test_a_point_in_words():
    assert describe_point((np.zeros((2, 3)), 2.0, "name", None)) == "float64[2, 3], 2.0, 'name', None"
    assert len(describe_point(("long" * 100,))) <= 60


def test_nearby_points_keep_types_signs_and_what_is_no_float():
    point = (np.array([1.0, -2.0, 0.0], np.float32), {"k": 3.0, "n": 4, "z": 1 - 2j}, "word", np.array([1, 2]))
    x, tree, word, counts = nearby(point, (0, 1, 1))
    assert x.dtype == np.float32 and (np.sign(x) == [1, -1, 0]).all() and 0 < abs(x[0] - 1) <= 0.031
    assert type(tree["k"]) is float and tree["k"] != 3.0 and tree["n"] == 4 and type(tree["z"]) is complex
    assert word == "word" and counts is point[3]
    assert nearby(point, (0, 1, 1))[1] == tree != nearby(point, (0, 1, 2))[1]
