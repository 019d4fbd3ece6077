"""GradBench's evaluations on small inputs of our own: every derivative against central differences, all by messages."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks.gradbench import table, tool

pytestmark = pytest.mark.slow

RNG = np.random.default_rng(7)


def ask(module, function, given):
    """Return what the tool answers to an evaluation, as it comes out of JSON."""
    message = {"id": 1, "kind": "evaluate", "module": module, "function": function, "input": given}
    reply = json.loads(json.dumps(tool.answer(json.loads(json.dumps(message)))))
    assert reply["success"], reply["error"]
    assert reply["timings"]
    return reply["output"]


def differences(module, function, given, name, read=lambda out: out, h=1e-5):
    """Return the derivatives of an output in each number of an input, the output's axes first."""
    base = np.array(given[name], dtype=float)
    columns = []
    for i in range(base.size):
        ends = []
        for step in (h, -h):
            moved = base.ravel().copy()
            moved[i] += step
            ends.append(np.array(read(ask(module, function, given | {name: moved.reshape(base.shape).tolist()}))))
        columns.append((ends[0] - ends[1]) / (2 * h))
    return np.stack(columns, axis=-1)


def close(found, expected):
    np.testing.assert_allclose(np.ravel(found), np.ravel(expected), rtol=2e-6, atol=2e-6)


def lists(*shape):
    return RNG.uniform(0.1, 1.0, shape).tolist()


@pytest.mark.parametrize(
    ("module", "given", "name"),
    [
        ("det", {"A": lists(16), "ell": 4}, "A"),
        ("llsq", {"x": lists(4), "n": 8}, "x"),
        ("lse", {"x": lists(5)}, "x"),
    ],
)
def test_gradients(module, given, name):
    close(ask(module, "gradient", given), differences(module, "primal", given, name))


def test_a_determinant_whose_columns_are_taken_one_after_another():
    a = RNG.normal(size=(9, 9))
    given = {"A": a.ravel().tolist(), "ell": 9}
    close(ask("det", "primal", given), np.linalg.det(a))
    close(ask("det", "gradient", given), np.linalg.det(a) * np.linalg.inv(a).T)


@pytest.mark.parametrize("steps", [1, 3])
def test_ode(steps):
    given = {"x": lists(4), "s": steps}
    close(ask("ode", "gradient", given), differences("ode", "primal", given, "x", lambda y: y[-1]))


def test_kmeans():
    points = RNG.uniform(size=(12, 2)).tolist()
    given = {"points": points, "centroids": points[-3:]}
    gradient = differences("kmeans", "cost", given, "centroids")
    squares = np.sum((np.array(points)[:, None] - np.array(points[-3:])) ** 2, axis=2)
    members = np.bincount(np.argmin(squares, axis=1), minlength=3)
    close(ask("kmeans", "dir", given), gradient.reshape(3, 2) / (2 * members[:, None]))


def test_lstm():
    given = {"main_params": lists(4, 12), "extra_params": lists(3, 3), "state": lists(4, 3), "sequence": lists(5, 3)}
    expected = [differences("lstm", "objective", given, name) for name in ("main_params", "extra_params")]
    close(ask("lstm", "jacobian", given), np.concatenate(expected))


def test_gmm():
    given = {"d": 3, "k": 2, "n": 4, "x": lists(4, 3), "m": 2, "gamma": 0.8}
    given |= {"alpha": lists(2), "mu": lists(2, 3), "q": lists(2, 3), "l": lists(2, 3)}
    found = ask("gmm", "jacobian", given)
    for name in ("alpha", "mu", "q", "l"):
        close(found[name], differences("gmm", "objective", given, name))


@pytest.mark.parametrize("rotation", [[0.3, -0.2, 0.5], [0.0, 0.0, 0.0]])
def test_ba(rotation):
    camera = [*rotation, 0.1, 0.2, -3.0, 1.5, 0.4, 0.3, 0.02, 0.01]
    given = {"n": 2, "m": 2, "p": 3, "cam": camera, "x": [0.3, -0.4, 0.5], "w": 0.7, "feat": [0.2, 0.1]}
    first = lambda out: out["reproj_error"]["elements"]
    expected = [differences("ba", "objective", given, name, first) for name in ("cam", "x", "w")]
    found = ask("ba", "jacobian", given)
    close(found["vals"], [*np.concatenate(expected, axis=1).ravel(), -2 * given["w"]])
    assert found["rows"] == [*range(0, 91, 15), 91, 92, 93][:30] + [93]
    assert found["cols"] == [*range(11), 22, 23, 24, 28] * 2 + [30]


def hand(triangles):
    bones = [np.eye(4) + 0.1 * RNG.normal(size=(4, 4)) * (np.arange(4) < 3)[:, None] for _ in range(44)]
    model = {
        "bone_count": 22,
        "bone_names": [f"bone{i}" for i in range(22)],
        "parents": [-1, 0, *[1 if i % 4 == 2 else i - 1 for i in range(2, 22)]],
        "base_relatives": [b.tolist() for b in bones[:22]],
        "inverse_base_absolutes": [b.tolist() for b in bones[22:]],
        "base_positions": [[*p, 1.0] for p in lists(5, 3)],
        "weights": lists(5, 22),
        "triangles": [[0, 1, 2], [2, 3, 4]],
        "is_mirrored": True,
    }
    data = {"model": model, "correspondences": [1, 0, 1] if triangles else [4, 0, 2], "points": lists(3, 3)}
    return {"theta": lists(26), "data": data, "us": lists(3, 2) if triangles else []}


def test_ht_on_vertices():
    given = hand(triangles=False)
    close(ask("ht", "jacobian", given), differences("ht", "objective", given, "theta"))


def test_ht_on_triangles():
    given = hand(triangles=True)
    by_us = differences("ht", "objective", given, "us")
    own = np.stack([by_us[3 * i : 3 * i + 3, 2 * i : 2 * i + 2] for i in range(3)]).reshape(9, 2)
    by_theta = differences("ht", "objective", given, "theta")
    close(ask("ht", "jacobian", given), np.concatenate([own, by_theta], axis=1))


def test_ht_without_a_rotation_has_none():
    given = hand(triangles=False)
    given["theta"][:3] = [0.0, 0.0, 0.0]
    slopes = np.array(ask("ht", "jacobian", given))
    assert np.all(np.isfinite(slopes))
    close(slopes[:, 3:], differences("ht", "objective", given, "theta")[:, 3:])


@pytest.mark.parametrize("modes", ["ff", "fr"])
def test_particle_crosses_the_axis_at_the_origin(modes):
    w = ask("particle", modes, {"w": 0.0})
    x, v = np.array([0.0, 8.0]), np.array([0.75, 0.0])
    while x[1] > 0:  # the force by hand: along (x - c) / |x - c|³, away from each charge
        a = sum((x - c) / np.sum((x - c) ** 2) ** 1.5 for c in np.array([[10.0, 10.0 - w], [10.0, 0.0]]))
        before, x, v = v, x + 0.1 * v, v + 0.1 * a
    crossing = x[0] - x[1] / before[1] * before[0]
    assert abs(crossing) < 1e-3


@pytest.mark.parametrize("modes", ["ff", "fr"])
def test_saddle(modes):
    found = ask("saddle", modes, {"start": [1.0, 1.0]})
    assert len(found) == 4
    assert np.max(np.abs(found)) < 2e-5


def test_messages_go_through_a_process():
    messages = [
        {"id": 0, "kind": "start", "eval": "hello"},
        {"id": 1, "kind": "define", "module": "hello"},
        {"id": 2, "kind": "evaluate", "module": "hello", "function": "square", "input": 3.0},
        {"id": 3, "kind": "analysis", "of": 2, "valid": True},
        {"id": 4, "kind": "evaluate", "module": "hello", "function": "double", "input": 3},
        {"id": 5, "kind": "evaluate", "module": "hello", "function": "triple", "input": 3.0},
        {"id": 6, "kind": "define", "module": "goodbye"},
    ]
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.gradbench.tool"],
        input="".join(json.dumps(m) + "\n" for m in messages),
        cwd=Path(tool.__file__).parents[2], text=True, capture_output=True, check=True,
    )  # fmt: skip
    replies = [json.loads(line) for line in done.stdout.splitlines()]
    assert [r["id"] for r in replies] == list(range(7))
    assert replies[0]["tool"] == "dualad"
    assert replies[1]["success"]
    assert (replies[2]["output"], replies[4]["output"]) == (9.0, 6.0)
    assert "triple" in replies[5]["error"]
    assert [replies[i]["success"] for i in (5, 6)] == [False, False]


def test_the_table_compares_what_both_have_right(tmp_path):
    def record(function, nanoseconds, valid=True):
        return {"function": function, "description": "n=1", "nanoseconds": nanoseconds, "valid": valid}

    ours = [record("primal", [90, 10, 10]), record("gradient", [40, 20])]
    theirs = [record("primal", [20, 20]), record("gradient", [1, 1], valid=False)]
    (tmp_path / "ode-dualad.json").write_text(json.dumps(ours))
    (tmp_path / "ode-jax.json").write_text(json.dumps(theirs))
    assert table.table(tmp_path).splitlines()[-1] == "| ode | 2 | 0.50 (≤ 0.50) | – | 1.83 |"
