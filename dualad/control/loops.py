"""Loops with a known number of steps: ``scan``, ``fori_loop``, ``map``, ``associative_scan``.

While values are known a loop is a Python loop, under every derivative; in a program that is being written (``trace``)
it is one equation that holds its body as a program (``control_ops.py``). Not for: loops that end when a value says so
(``control_flow.py``).
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import optree

from ..base.arguments import check_callable
from ..base.frames import public
from ..base.tree import LeafName, flatten, flatten_like, leaf_names, treedef_outline
from ..core.aval import Aval
from ..core.dispatch import bind
from ..core.tracer import Tracer
from ..errors import ArgumentError, ArgumentTypeError, OutputError, ShapeError, TreeError
from ..memory.memory import unshared
from ..ops.joining import unstack
from ..rules.calls import Template, partition
from ..surface.arguments import operand
from ..surface.leaves import output_leaves, plain_leaf
from ..tensors.chunks import Chunking, Plan, refuse_traced
from .carry import Carry
from .control_flow import decider, is_traced, known_values, linear_arguments, name_of, staged_body, while_loop
from .segments import check_checkpoints, levels, scan_in_segments
from .subprograms import permute_inputs

__all__ = ["associative_scan", "fori_loop", "map", "scan"]


# ── scan, fori_loop, map ─────────────────────────────────────────────────────────────────────────────────────────


@public
def scan(
    f: Callable, init: Any, xs: Any = None, length: int | None = None, reverse: bool = False, *,
    checkpoints: int | None = None,
) -> tuple:  # fmt: skip
    """Go through the rows of arrays with a carry, and stack what each step returns.

    Parameters
    ----------
    f : callable
        ``f(carry, x) -> (carry, y)``; the carry keeps its structure, shapes and dtypes.
    init : tree of arrays
        The first carry. Its arrays are never written to.
    xs : tree of arrays, optional
        Their rows along axis 0 are the ``x`` of each step.
    length : int, optional
        Number of steps; needed only without ``xs``.
    reverse : bool
        Whether to go from the last row to the first; the results are stacked in the order of the rows.
    checkpoints : int, optional
        How many carries reverse mode keeps, to take the steps between them once more, or more often, on its way back.
        It then holds the residuals of about as many steps at a time, and not of all. The body is written down.

    Returns
    -------
    carry : tree
        The last carry.
    ys : tree
        The stacked ``y``.

    Raises
    ------
    TreeError, ShapeError, DtypeError
        If the carry or ``y`` changes its structure or a shape, or the carry a dtype.
    ArgumentError
        If the number of steps is unknown or contradictory.

    Notes
    -----
    In a traced program a scan is one equation. Its derivative is two: one that stacks residuals, and one that is
    linear in the tangents, which reverse mode walks backwards.

    Examples
    --------
    >>> total, sums = da.scan(lambda c, x: (c + x, c + x), 0.0, np.array([1.0, 2.0, 3.0]))
    >>> float(total), sums
    (6.0, array([1., 3., 6.]))
    >>> da.grad(lambda x: da.scan(lambda c, v: (c * v, None), 1.0, x)[0])(np.array([2.0, 3.0, 4.0]))
    array([12.,  8.,  6.])
    """
    check_callable(f, "scan")
    check_checkpoints("scan", checkpoints)
    template, arrays = _rows_of(xs, "scan")
    count = _steps(xs, arrays, template, length)

    def step(carry, *rows):
        out = f(carry, template.fill(rows))
        if not (isinstance(out, tuple) and len(out) == 2):
            found = f"{len(out)} values" if isinstance(out, tuple) else f"a {type(out).__name__}"
            raise OutputError(
                f"scan: the function returned {found}.",
                "it returns the pair (carry, y), of which the second is stacked",
                "return (carry, None) where there is nothing to stack",
            )
        return out

    return _scan(step, f, Carry(init, "scan"), arrays, count, reverse, checkpoints=checkpoints)


def _scan(
    step: Callable, f: Callable, carry: Carry, arrays: list, count: int, reverse: bool, index: bool = False,
    by_steps: bool = False, checkpoints: int | None = None,
) -> tuple:  # fmt: skip
    """Scan flat rows; with ``index`` the one array is a range of Python integers, and ``by_steps`` stages nothing."""
    staged = functools.partial(_staged_scan, step, f, carry, arrays, count, reverse, index, checkpoints)
    values = carry.start()
    if not by_steps and (count == 0 or checkpoints is not None or is_traced([*values, *arrays])):
        return staged()
    rows = [x if index else _rows(x) for x in arrays]
    stacks: list[list] = []
    tree = None
    for n, i in enumerate(range(count - 1, -1, -1) if reverse else range(count)):
        new, y = step(carry.tree(values), *[r[i] for r in rows])
        values = carry.accept(new)
        leaves, y_tree = output_leaves(y, carry.where)
        if n == 0:
            if not by_steps and is_traced([*values, *leaves]):
                return staged()
            tree, stacks = y_tree, [[] for _ in leaves]
        elif y_tree != tree:
            raise TreeError(
                f"{carry.where}: y was {treedef_outline(tree)} in one step and {treedef_outline(y_tree)} in another.",
                "the results of all steps are stacked",
                "return the same structure in every step",
            )
        for stack, leaf in zip(stacks, leaves, strict=True):
            stack.append(unshared(operand(leaf) if isinstance(leaf, np.ndarray) else leaf))
    ys = [_stack(stack[::-1] if reverse else stack, carry.where) for stack in stacks]
    return carry.tree(values), optree.tree_unflatten(tree, ys)


def _staged_scan(
    step: Callable, f: Callable, carry: Carry, arrays: list, count: int, reverse: bool, index: bool,
    checkpoints: int | None,
) -> tuple:  # fmt: skip
    values = carry.start()
    xs = [Aval(np.shape(x)[1:], np.asarray(x).dtype if index else x.dtype, index) for x in arrays]
    body, values = staged_body(carry, values, step, xs, f)
    k, cut, c = len(values), len(values) + len(xs), len(body.captured)
    args = [*body.captured, *values, *[np.asarray(x) if index else x for x in arrays]]
    if count and any(linear_arguments(args)):
        # The body reads a value of a program that must be linear in it: that one gets the steps.
        return _scan(step, f, carry, arrays, count, reverse, index, by_steps=True)
    params = {
        "body": permute_inputs(body.program, [*range(cut, cut + c), *range(cut)]), "length": count,
        "reverse": bool(reverse), "counts": (c, k, len(xs), 0), "linear": False,
    }  # fmt: skip
    out = scan_in_segments(args, params, levels(count, checkpoints))
    return carry.result(out[:k]), optree.tree_unflatten(body.tree.child(1), list(out[k:]))


def _rows_of(xs: Any, where: str) -> tuple[Template, list]:
    """Take the arrays out of a tree, each of which has rows; other leaves are the same in every step."""
    for i, x in enumerate(flatten(xs)[0]):
        plain_leaf(x, LeafName(xs, "xs", i), where)
    template, arrays = partition(xs)
    return template, [_rows_checked(x) for x in arrays]


def _rows_checked(x):
    x = operand(x)
    if not np.shape(x):
        raise ShapeError(
            f"scan: xs holds a {'number' if not hasattr(x, 'dtype') else 'scalar'}, which has no rows.",
            "the steps go through axis 0 of every array in xs (a list of numbers is a tree of scalars)",
            "pass arrays: np.array([...]); values that are the same in every step belong in the closure",
        )
    return x


def _rows(x) -> Sequence:
    if isinstance(x, Tracer):
        return bind(unstack, (x,), {"axis": 0})
    view = x.view()
    view.setflags(write=False)
    return view


def _steps(xs, arrays: list, template, length) -> int:
    """Return the number of steps, on which all arrays agree."""
    names = leaf_names(xs, "xs")
    sizes = {names[i]: np.shape(x)[0] for i, x in zip(template.arrays, arrays, strict=True)}
    if length is not None:
        if isinstance(length, bool) or not hasattr(length, "__index__") or length < 0:
            raise ArgumentError(f"scan: length={length!r}.", "it is a number of steps", "pass an int of at least 0")
        sizes["length"] = operator.index(length)
    if not sizes:
        raise ArgumentError(
            "scan: there is neither xs nor length.", "the number of steps is unknown", "pass length=, or arrays as xs"
        )
    if len(set(sizes.values())) > 1:
        each = [f"length is {n}" if name == "length" else f"{name} has {n} rows" for name, n in sizes.items()]
        raise ArgumentError(
            f"scan: {', '.join(each)}.", "step i takes row i of every array", "pass arrays of one length along axis 0"
        )
    return next(iter(sizes.values()))


def _stack(stack: list, where: str):
    shapes = {np.shape(x) for x in stack}
    if len(shapes) > 1:
        raise ShapeError(
            f"{where}: y had the shapes {', '.join([str(s) for s in sorted(shapes)])} in different steps.",
            "the results of all steps are stacked",
            "return the same shape in every step",
        )
    return np.stack(stack)


@public
def fori_loop(lower: Any, upper: Any, body_fun: Callable, init: Any) -> Any:
    """Call a function on its own result for every integer of a range.

    Parameters
    ----------
    lower, upper : int, scalar
        The range; ``upper`` is excluded.
    body_fun : callable
        ``body_fun(i, carry) -> carry``, of the same structure, shapes and dtypes.
    init : tree of arrays
        The first carry. Its arrays are never written to.

    Returns
    -------
    tree
        The last carry.

    Raises
    ------
    TreeError, ShapeError, DtypeError
        If the carry changes its structure, a shape or a dtype.

    Notes
    -----
    In a traced program a loop over a known range is one ``scan``, and every derivative goes through it. Where a bound
    is itself traced, or lanes of ``vmap`` differ in it, it is a :func:`while_loop`.

    Examples
    --------
    >>> float(da.grad(lambda x: da.fori_loop(0, 3, lambda i, c: c * x, 1.0))(2.0))
    12.0
    """
    check_callable(body_fun, "fori_loop", "body_fun")
    bounds = [decider(b, f"fori_loop: {n}", integer=True) for b, n in ((lower, "lower"), (upper, "upper"))]
    known = [known_values(b) for b in bounds]
    if any([k is None or k.size == 0 or (k != k.flat[0]).any() for k in known]):
        stop = bounds[1]

        def going(state):
            return state[0] < stop

        def one_more(state):
            return state[0] + 1, body_fun(state[0], state[1])

        going.__name__, one_more.__name__ = "going", name_of(body_fun)
        return while_loop(going, one_more, (bounds[0], init))[1]
    numbers = range(int(known[0].flat[0]), int(known[1].flat[0]))
    carry = Carry(init, "fori_loop")
    if not numbers:  # the body isn't asked: it may read an array at the counter, and there is nothing to read
        return carry.tree(carry.start())
    return _scan(
        lambda state, i: (body_fun(i, state), None), body_fun, carry, [numbers], len(numbers), False, index=True
    )[0]


@public
def map(f: Callable, xs: Any, *, executor: Any = None, chunk_size: int | None = None, progress: bool = False) -> Any:
    """Call a function on the rows of arrays, one after the other, and stack the results.

    Parameters
    ----------
    f : callable
        A function of one row (of a tree of rows, if ``xs`` is a tree).
    xs : tree of arrays
        Their rows along axis 0 are taken.
    executor : Executor, optional
        Whose workers take the rows, as for :func:`dualad.vmap`.
    chunk_size : int, optional
        How many rows a worker is given at a time; a quarter of its share by default.
    progress : bool
        Whether to show a bar on a terminal, with tqdm if it is installed.

    Returns
    -------
    tree
        The stacked results. :func:`dualad.vmap` gives the same and calls ``f`` once; this takes less memory.

    Raises
    ------
    TreeError, ShapeError
        If results differ in structure or shape.

    Examples
    --------
    >>> da.map(lambda x: x**2, np.array([1.0, 2.0, 3.0]))
    array([1., 4., 9.])
    """
    check_callable(f, "map")

    def step(carry, x):
        return None, f(x)

    step.__name__ = name_of(f)
    chunks = Chunking("map", chunk_size, None, executor, progress)
    if executor is not None or (progress and not is_traced(flatten(xs)[0])):
        return _map_over(f, xs, chunks)
    return scan(step, None, xs)[1]


def _map_over(f: Callable, xs: Any, chunks: Chunking) -> Any:
    """Map by the workers of an executor, or here with a bar."""
    where = f"map({name_of(f)})"
    refuse_traced(xs, chunks.executor, where)
    template, arrays = _rows_of(xs, "map")
    plan = Plan(
        functools.partial(_map_rows, f, template), _steps(xs, arrays, template, None),
        lambda ranges: [tuple([x[start:stop] for x in arrays]) for start, stop in ranges], where, "rows", f, each=4,
    )  # fmt: skip
    parts = chunks.run(plan)
    trees = [part.tree for part, _ in parts]
    if any([t != trees[0] for t in trees]):
        raise TreeError(
            f"{where}: results were {treedef_outline(trees[0])} in one chunk and another structure elsewhere.",
            "the results of all rows are stacked",
            "return the same structure for every row",
        )
    return parts[0][0].fill([np.concatenate(blocks) for blocks in zip(*[arrays for _, arrays in parts], strict=True)])


def _map_rows(f: Callable, template: Template, start: int, stop: int, *rows: Any) -> tuple[Template, list]:
    """Call a function on some rows, one after the other; static leaves are in the template."""
    return partition(map(f, template.fill(rows)))


# ── associative_scan ─────────────────────────────────────────────────────────────────────────────────────────────


@public
def associative_scan(f: Callable, xs: Any, reverse: bool = False, axis: int = 0) -> Any:
    """Combine the entries along an axis cumulatively, in a logarithmic number of array operations.

    Parameters
    ----------
    f : callable
        ``f(a, b)``, associative. It is given many entries at once, stacked along ``axis``, and combines them entry by
        entry: ``np.add``, ``np.matmul``, or a function of trees.
    xs : tree of arrays
        The entries, all of one length along ``axis``.
    reverse : bool
        Whether to combine from the last entry to the first.
    axis : int
        Along which axis.

    Returns
    -------
    tree
        Like ``xs``: entry i combines all entries up to and including i.

    Raises
    ------
    ArgumentError, ShapeError, TreeError
        If the lengths differ, or ``f`` returns something that is not like its arguments.

    Notes
    -----
    Blelloch, *Prefix sums and their applications* (1990).

    Examples
    --------
    >>> da.associative_scan(np.multiply, np.array([1.0, 2.0, 3.0, 4.0]))
    array([ 1.,  2.,  6., 24.])
    """
    check_callable(f, "associative_scan")
    if isinstance(axis, bool) or not hasattr(axis, "__index__"):
        raise ArgumentTypeError(f"associative_scan: axis={axis!r}.", "an axis is an integer", "write axis=0")
    leaves, tree = flatten(xs)
    leaves = [operand(x) for x in leaves]
    names = leaf_names(xs, "xs")
    for x, name in zip(leaves, names, strict=True):
        if not -np.ndim(x) <= axis < np.ndim(x):
            raise ArgumentError(
                f"associative_scan: {name} has {np.ndim(x)} dimensions, and axis is {axis}.",
                "there is no such axis",
                "choose an axis that every array has",
            )
    if len({np.shape(x)[axis] for x in leaves}) > 1:
        raise ArgumentError(
            f"associative_scan: the arrays have lengths {[np.shape(x)[axis] for x in leaves]} along axis {axis}.",
            "entry i of each belongs to entry i of the others",
            "pass arrays of one length",
        )
    if not leaves or np.shape(leaves[0])[axis] < 2:
        return xs
    axes = [axis % np.ndim(x) for x in leaves]

    def combined(a: list, b: list) -> list:
        out = f(optree.tree_unflatten(tree, a), optree.tree_unflatten(tree, b))
        new = [operand(x) for x in flatten_like(tree, out, "what f returned", "its arguments")]
        for x, y, name in zip(new, a, names, strict=True):
            if np.shape(x) != np.shape(y):
                raise ShapeError(
                    f"associative_scan: f turned shape {np.shape(y)} into {np.shape(x)} at {name}.",
                    "it combines stacked entries one by one",
                    "return arrays like the arguments, the stacking axis included",
                )
        return new

    def cut(parts: list, start, stop=None, step=None) -> list:
        return [x[(*[slice(None)] * k, slice(start, stop, step))] for x, k in zip(parts, axes, strict=True)]

    def prefixes(parts: list) -> list:
        count = np.shape(parts[0])[axes[0]]
        if count < 2:
            return parts
        pairs = count - count % 2
        odd = prefixes(combined(cut(parts, 0, pairs, 2), cut(parts, 1, pairs, 2)))
        later = cut(parts, 2, None, 2)
        many = np.shape(later[0])[axes[0]]
        even = combined(cut(odd, 0, many), later) if many else later
        even = [np.concatenate([a, b], k) for a, b, k in zip(cut(parts, 0, 1), even, axes, strict=True)]
        return [_interleave(a, b, k) for a, b, k in zip(even, odd, axes, strict=True)]

    result = prefixes([np.flip(x, k) for x, k in zip(leaves, axes, strict=True)] if reverse else leaves)
    if reverse:
        result = [np.flip(x, k) for x, k in zip(result, axes, strict=True)]
    return optree.tree_unflatten(tree, result)


def _interleave(even, odd, axis: int):
    """Put entries in turn: even has as many as odd, or one more."""
    n = np.shape(odd)[axis]
    shape = (*np.shape(odd)[:axis], 2 * n, *np.shape(odd)[axis + 1 :])
    index = (slice(None),) * axis
    pairs = np.reshape(np.stack([even[(*index, slice(0, n))], odd], axis + 1), shape)
    return pairs if np.shape(even)[axis] == n else np.concatenate([pairs, even[(*index, slice(n, None))]], axis)
