"""What a profiler must say of forward and reverse mode.

Not for: the profiler's own room (`tests/diagnose/profiling/`).
"""

from __future__ import annotations

import inspect
import json
import threading
from pathlib import Path

import numpy as np

import dualad as da
from dualad.diagnose.profiling.event import Event, averages


def fake(name: str, start: int, stop: int, parent: Event | None = None, thread: int = 0) -> Event:
    event = Event(name, "primal", parent, thread)
    event.start, event.wall = start, stop - start
    if parent is not None:
        parent.inside += stop - start
    return event


def line_of(f, text: str) -> int:
    lines, first = inspect.getsourcelines(f)
    return first + next(i for i, line in enumerate(lines) if text in line)


def test_profiler_names_the_operations_in_order() -> None:
    def f(x):
        return np.sum(np.multiply(x, x) + 1.0)

    with da.profile() as p:
        da.jvp(f, (np.ones(3),), (np.ones(3),))
    assert [e.name for e in p.events] == ["multiply", "add", "sum", "jvp"]
    assert all(e.total > 0 for e in p.events)


def test_profiler_seq_nr() -> None:
    """x, y of shape (10, 10): z = x + y, s = z.sum(); the transposes of both bear their numbers, and no other."""

    def f(x, y):
        z = np.add(x, y)
        return np.sum(z)

    with da.profile() as p:
        _, pull = da.vjp(f, np.ones((10, 10)), np.ones((10, 10)))
        pull(1.0)
    forward = {e.name: e for e in p.events if e.phase == "linearize"}
    back = {e.name: e for e in p.events if e.phase == "transpose"}
    assert forward.keys() == back.keys() == {"add", "sum"}
    assert forward["add"].seq is not None and forward["add"].seq < forward["sum"].seq
    for name, text in (("add", "np.add"), ("sum", "np.sum")):
        assert forward[name].seq == back[name].seq
        assert forward[name].line == back[name].line
        assert back[name].line.number == line_of(f, text)
    assert {e.seq for e in p.events if e.seq is not None} == {e.seq for e in forward.values()}


def test_profiler_seq_nr_of_one_operation_with_several_equations() -> None:
    """hypot writes down two products and a sum: all three transposes lead back to its line."""

    def f(x):
        return np.hypot(np.sin(x), np.cos(x))

    with da.profile() as p:
        da.grad(f)(0.3)
    hypot = next(e for e in p.events if e.name == "hypot")
    written = [e for e in p.events if e.phase == "record" and e.seq == hypot.seq]
    walked = [e for e in p.events if e.phase == "transpose" and e.seq == hypot.seq]
    assert len(written) == len(walked) >= 3
    assert {e.line.number for e in walked} == {line_of(f, "np.hypot")}


def test_profiler_unboxed_only() -> None:
    with da.profile() as p:
        da.grad(lambda x: np.sum(x @ x))(np.ones((4, 4)))
    assert {"matmul", "sum"} <= {e.name for e in p.events}


def test_profiler_propagation_into_the_functions_of_rules() -> None:
    @da.custom_jvp
    def cube(x):
        with da.profile.range("in the rule"):
            return x**3

    cube.defjvp(lambda primals, tangents: (cube(*primals), 3 * primals[0] ** 2 * tangents[0]))
    with da.profile() as p:
        da.jvp(cube, (2.0,), (1.0,))
    inner = next(e for e in p.events if e.name == "in the rule")
    around = []
    while inner is not None:
        around.append(inner.phase)
        inner = inner.parent
    assert around[0] == "range" and around[-1] == "transform"


def test_record_function_callbacks() -> None:
    """Each profiler that is on is told of each event once; a nested one only of those inside its block."""
    with da.profile() as outer:
        da.jvp(np.sin, (1.0,), (1.0,))
        with da.profile() as inner:
            da.jvp(np.cos, (1.0,), (1.0,))
        da.jvp(np.tan, (1.0,), (1.0,))
    assert [e.name for e in inner.events if e.operation] == ["cos"]
    assert [e.name for e in outer.events if e.operation] == ["sin", "cos", "tan"]


def test_record_function() -> None:
    @da.profile.range("decorated")
    def f(x):
        with da.profile.range("inner"):
            return np.sin(x)

    with da.profile() as p, da.profile.range("outer"):
        da.jvp(f, (1.0,), (1.0,))
    by_name = {e.name: e for e in p.events}
    assert list(by_name) == ["sin", "inner", "decorated", "jvp", "outer"]
    chain, names = by_name["sin"], []
    while chain is not None:
        names.append(chain.name)
        chain = chain.parent
    assert names == ["sin", "inner", "decorated", "jvp", "outer"]
    assert by_name["inner"].line.function.endswith("f")
    assert f(0.0) == 0.0, "a range without a profiler is nothing"


def test_record_function_multithreaded() -> None:
    """Ranges of one name in two threads are two trees."""

    def work():
        with da.profile.range("outer"):
            da.jvp(np.sin, (1.0,), (1.0,))

    with da.profile() as p, da.profile(threads="own") as own:
        other = threading.Thread(target=work)
        other.start()
        other.join()
        work()
    assert sorted(e.name for e in p.events) == ["jvp", "jvp", "outer", "outer", "sin", "sin"]
    assert len({e.thread for e in p.events}) == 2
    for e in p.events:
        assert e.parent is None or e.parent.thread == e.thread
    assert {e.thread for e in own.events} == {threading.get_ident()}
    assert sorted(r.thread == threading.get_ident() for r in p.rows(by="thread", phase="range")) == [False, True]


def test_profiler_aggregation_fake() -> None:
    """Nested intervals: self is what no interval inside accounts for, and the selves add up to the whole."""
    a = fake("a", 0, 100)
    b = fake("b", 10, 40, a)
    c = fake("c", 20, 30, b)
    d = fake("d", 50, 90, a)
    other = fake("e", 0, 10, thread=1)
    own = {r.name: r.own for r in averages([a, b, c, d, other])}
    assert own == {"a": 30, "b": 20, "c": 10, "d": 40, "e": 10}


def test_profiler_aggregation_counts_recursion_once() -> None:
    outer = fake("f", 0, 100)
    inner = fake("f", 10, 60, outer)
    [row] = averages([outer, inner])
    assert (row.calls, row.nanoseconds, row.own) == (2, 100, 100)


def test_profiler_function_event_avg() -> None:
    """Four events of 5, 10, 5 and 10: total 30, mean 7.5."""
    events = [fake("foo", 0, 5), fake("foo", 0, 10), fake("foo", 0, 5), fake("foo", 0, 10)]
    [row] = averages(events)
    assert row.calls == 4
    assert row.nanoseconds == 30
    assert round(row.mean * 1e9, 6) == 7.5


def test_profiler_shapes() -> None:
    def layers(x, w1, w2):
        return np.sum((x @ w1) @ w2)

    x, w1, w2 = np.ones((128, 20)), np.ones((20, 30)), np.ones((30, 40))
    with da.profile() as p:
        da.grad(layers, (1, 2))(x, w1, w2)
    forward = [e for e in p.events if e.name == "matmul" and e.phase == "linearize"]
    assert [e.shapes for e in forward] == ["f64[128,20], f64[20,30]", "f64[128,30], f64[30,40]"]
    assert [repr(e.outputs) for e in forward] == ["(f64[128,30],)", "(f64[128,40],)"]
    assert [e.bytes for e in forward] == [128 * 30 * 8, 128 * 40 * 8]
    rows = p.rows(by="shape", phase="transpose")
    assert {r.shapes for r in rows if r.name == "matmul"} == {"f64[128,40]", "f64[128,30]"}


def test_profiler_aggregation_of_a_recurrence() -> None:
    """Ten steps of a cell: calls add up, the selves of all rows are the time of the outermost events."""

    def cell(h, w):
        for _ in range(10):
            h = np.tanh(w @ h)
        return np.sum(h)

    with da.profile() as p:
        da.grad(cell, 1)(np.ones(8), np.eye(8) / 2)
    calls = {(r.name, r.phase): r.calls for r in p.rows()}
    assert calls["tanh", "linearize"] == calls["matmul", "linearize"] == 10
    assert calls["matmul", "transpose"] == 19, "the first product has one moving factor, the others have two"
    outermost = sum(e.nanoseconds for e in p.events if e.parent is None)
    assert abs(sum(r.own for r in p.rows()) - outermost) <= 0.02 * outermost
    assert sum(r.own for r in p.rows()) == sum(r.own for r in p.rows(by=("shape", "line")))


def test_profiler_aggregation_table() -> None:
    with da.profile() as p:
        da.grad(lambda x: np.sum(np.sin(x) * x))(np.ones(5))
    for key in ("self", "total", "calls", "bytes", "mean", "name"):
        text = p.table(sort=key)
        assert "sin" in text and "transpose" in text and "value" not in text
    names = [line.split()[0] for line in p.table(sort="name").splitlines()[2:]]
    first = names[: names.index("transform")]
    assert first == sorted(first)
    assert "more rows (limit=" in p.table(limit=2)
    assert "shapes" not in p.table() and "f64[5]" in p.table(by="shape")


def test_profiler_traces_load(tmp_path: Path) -> None:
    """The trace is what Perfetto takes: complete events, names of threads, arrows whose ends are inside events."""
    with da.profile() as p:
        da.grad(lambda x: np.sum(np.sin(x)))(np.ones(3))
    p.to_chrome_trace(tmp_path / "trace.json")
    entries = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    complete = [e for e in entries if e["ph"] == "X"]
    assert len(complete) == len(p.events)
    assert all(e["ts"] >= 0 and e["dur"] >= 0 and {"pid", "tid", "name", "cat", "args"} <= e.keys() for e in complete)
    assert any(e["ph"] == "M" and e["name"] == "thread_name" for e in entries)
    starts = {e["id"]: e for e in entries if e["ph"] == "s"}
    ends = {e["id"]: e for e in entries if e["ph"] == "f"}
    assert starts.keys() == ends.keys() and len(ends) == sum(e.phase == "transpose" for e in p.events)
    for number, end in ends.items():
        begun = [e for e in complete if e["ts"] == starts[number]["ts"]]
        reached = [e for e in complete if e["ts"] == end["ts"] and e["cat"] == "transpose"]
        assert reached and {e["args"].get("seq") for e in begun} >= {reached[0]["args"]["seq"]}
