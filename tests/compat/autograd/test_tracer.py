"""Graphs of one's own nodes: each operation is seen once, with its value and its parents."""

from __future__ import annotations

import numpy as np

from dualad.compat.autograd import grad
from dualad.compat.autograd.tracer import Node, getval, isbox, trace


class Written(Node):
    def __init__(self, value, fun, args, kwargs, parent_argnums, parents):
        self.value, self.name, self.parents = value, fun.__name__, parents
        filled = list(args)
        for i, parent in zip(parent_argnums, parents, strict=True):
            filled[i] = parent.value
        np.testing.assert_allclose(fun(*filled), value)

    def initialize_root(self, x):
        self.value, self.name, self.parents = x, "x", ()

    def __str__(self):
        return f"{self.name}({', '.join(map(str, self.parents))})" if self.parents else self.name


def test_a_function_is_seen_operation_by_operation():
    value, node = trace(Written.new_root(1.2), lambda x: np.sin(x + x) * 3.0, 1.2)
    np.testing.assert_allclose(value, np.sin(2.4) * 3)
    assert node.value == value and node.name == "multiply" and node.parents[0].name == "sin"


def test_and_so_is_a_gradient():
    value, node = trace(Written.new_root(0.7), grad(np.sin), 0.7)
    np.testing.assert_allclose(value, np.cos(0.7))
    assert "cos(x)" in str(node)


def test_a_constant_has_no_node():
    assert trace(Written.new_root(1.0), lambda x: 4.0, 1.0) == (4.0, None)


def test_tensors_are_known_and_have_values():
    seen = []
    grad(lambda x: seen.append((isbox(x), isbox(getval(x)), float(getval(x)))) or x)(2.0)
    assert seen == [(True, False, 2.0)] and not isbox(np.ones(2))
