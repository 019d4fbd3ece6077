"""Control flow that every transform looks through: ``cond``, ``switch``, ``while_loop``.

While the values that decide are known, this is Python: an ``if``, a ``while``, a ``for``, under every derivative. Where
lanes of ``vmap`` decide differently, both branches run and ``np.where`` selects; lanes of a loop that are done stay
done. In a program that is being written (``trace``) a construct is one equation that holds its bodies as programs
(``control_ops.py``). Not for: loops with a known number of steps (``loops.py``), nor code that knows its values, where
a plain ``if`` and ``while`` do.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import optree

from ..base.arguments import check_callable
from ..base.frames import public
from ..base.tree import leaf_names, treedef_outline
from ..core.aval import Aval, aval_of, is_inexact, is_weak, result_dtype
from ..core.constants import foreign
from ..core.dispatch import bind
from ..core.level import escaped
from ..core.libraries import refuse_lazy
from ..core.tracer import Tracer, beneath, is_python_number, layers
from ..dual import Dual
from ..errors import ArgumentError, ArgumentTypeError, ConvergenceError, DtypeError, ShapeError, TreeError
from ..memory.memory import unshared
from ..rules.calls import partition
from ..surface.leaves import output_leaves
from ..tensors.lazy import Lazy
from ..tensors.staged import Staged
from .carry import Carry, as_dtype, as_numbers, fresh, signature
from .control_ops import switch as switch_op
from .control_ops import switch_linearly
from .control_ops import while_loop as while_op
from .segments import check_checkpoints, levels, scan_in_segments
from .subprograms import StagedBody, captured_inputs, output_avals, permute_inputs, stage

__all__ = [
    "cond", "decider", "is_traced", "known_values", "linear_arguments", "name_of", "staged_body", "switch",
    "while_loop",
]  # fmt: skip


# ── facts about values ───────────────────────────────────────────────────────────────────────────────────────────


def is_traced(leaves: Sequence) -> bool:
    """Whether control flow on these values is recorded as one equation.

    That is so in a program of values (``trace``). A linear program, which reverse mode writes, gets the steps instead.
    """
    found = [v for v in [beneath(x) for x in leaves if isinstance(x, Tracer)] if type(v) is Staged]
    return bool(found) and not any([v.level.linear for v in found])


def decider(x, what: str, integer: bool = False):
    """Check a predicate or an index: a scalar of the right kind. Return it as a bool or integer, tensor or not."""
    aval = aval_of(x)
    if aval.shape != ():
        raise ShapeError(
            f"{what} has shape {aval.shape}.",
            "it decides once for everything (under vmap, once per lane)",
            "reduce it with np.all or np.any, or select entry by entry with np.where",
        )
    if aval.dtype.kind not in ("iu" if integer else "biufc"):
        raise DtypeError(
            f"{what} has dtype {aval.dtype}.",
            "it is an integer" if integer else "it is a truth value",
            "convert it with x.astype(int)" if integer else "compare it with something",
        )
    if isinstance(x, Tracer) and not x.level.open:
        raise escaped(x.level, what, x)
    return x if integer or aval.dtype.kind == "b" or not isinstance(x, Tracer) else np.not_equal(x, 0)


def known_values(x):
    """Return the known values inside a decider: one, or an array of the lanes'; ``None`` where it is unknown."""
    values = beneath(x)
    if type(values) is Lazy:  # in a checkpoint: it may hold lanes of its own
        numbers = values.known()
        return None if numbers is None else np.asarray(numbers)
    if isinstance(values, Tracer):
        return None if isinstance(values, Staged) else np.asarray(bool(values))
    refuse_lazy(values, "which way a branch goes", "select with np.where(pred, a, b), or ")
    return np.asarray(values if foreign(values) is None else values.item())


# ── cond, switch ─────────────────────────────────────────────────────────────────────────────────────────────────


@public
def cond(pred: Any, true_fun: Callable, false_fun: Callable, *operands: Any) -> Any:
    """Call one of two functions.

    Parameters
    ----------
    pred : bool or number, scalar
        Which one: ``true_fun`` if it is true or nonzero.
    true_fun, false_fun : callable
        Functions of the operands. They may read traced values from their closures. They return the same structure,
        shapes and dtypes, which is checked where both of them run.
    *operands : trees of arrays
        Their arguments.

    Returns
    -------
    tree
        What the chosen function returns. Where lanes of ``vmap`` differ, both functions run for all lanes and
        ``np.where`` selects; in a traced program it is one equation, ``switch``.

    Raises
    ------
    ShapeError
        If ``pred`` is not a scalar, or the functions return different shapes where both run.
    TreeError, DtypeError
        If they return different structures or dtypes where both run.

    Examples
    --------
    >>> f = lambda x: da.cond(x > 0, np.sqrt, lambda v: 0.0 * v, x)
    >>> da.vmap(da.grad(f))(np.array([-1.0, 4.0]))
    array([0.  , 0.25])
    """
    check_callable(true_fun, "cond", "true_fun")
    check_callable(false_fun, "cond", "false_fun")
    pred = decider(pred, "cond: the predicate")
    known = known_values(pred)
    if known is not None and (known.all() or not known.any()):
        return (true_fun if known.size and known.all() else false_fun)(*fresh(operands))
    return _choose(pred, known, (false_fun, true_fun), operands, "cond")


@public
def switch(index: Any, branches: Sequence[Callable], *operands: Any) -> Any:
    """Call one of several functions.

    Parameters
    ----------
    index : int, scalar
        Which one. An index out of range is moved to the nearest end, under every transform alike.
    branches : sequence of callables
        Functions of the operands, as for :func:`cond`.
    *operands : trees of arrays
        Their arguments.

    Returns
    -------
    tree
        What the chosen function returns.

    Raises
    ------
    ArgumentError
        If there are no branches.
    ShapeError, DtypeError, TreeError
        As for :func:`cond`, and if ``index`` is no integer.

    Examples
    --------
    >>> da.vmap(lambda i, x: da.switch(i, [np.sin, np.cos, np.negative], x))(np.arange(3), np.zeros(3))
    array([ 0.,  1., -0.])
    """
    if not isinstance(branches, Sequence):
        raise ArgumentTypeError(
            f"switch: branches is a {type(branches).__name__}.",
            "one of several functions is chosen",
            "pass a list of functions",
        )
    branches = tuple(branches)
    for i, f in enumerate(branches):
        check_callable(f, "switch", f"branch {i}")
    if not branches:
        raise ArgumentError("switch: there are no branches.", "one of them is called", "pass at least one function")
    index = decider(index, "switch: the index", integer=True)
    known = known_values(index)
    if known is not None:
        known = np.clip(known, 0, len(branches) - 1)
        if known.size and (known == known.flat[0]).all():
            return branches[int(known.flat[0])](*fresh(operands))
    return _choose(index, known, branches, operands, "switch")


def _choose(index, known, branches: tuple, operands: tuple, where: str):
    """Run the branches that any lane takes and select, or write them all down."""
    if known is None:
        return _staged_switch(index, branches, operands, where)
    taken = sorted(set(known.ravel().tolist())) if where == "switch" else [False, True]
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):  # of lanes that another branch is chosen for
        results = {int(i): output_leaves(branches[int(i)](*fresh(operands)), where) for i in taken}
    (_, (first, tree)), *others = sorted(results.items())
    for _, (leaves, other) in others:
        _check_alike([signature(x) for x in first], [signature(x) for x in leaves], tree, other, where)
    chosen, numbers = list(first), [is_python_number(x) for x in first]
    for i, (leaves, _) in others:
        mine = index >= i if where == "switch" else index
        chosen = [np.where(mine, a, b) for a, b in zip(leaves, chosen, strict=True)]
        numbers = [n and is_python_number(x) for n, x in zip(numbers, leaves, strict=True)]
    return optree.tree_unflatten(tree, as_numbers(chosen, numbers))


def _check_alike(a: Sequence[Aval], b: Sequence[Aval], tree, other, where: str) -> list[Aval]:
    """Check that two branches return the same, and return what that is; a Python number takes the other's dtype."""
    if tree != other:
        raise TreeError(
            f"{where}: the branches return different structures:\n    {treedef_outline(tree)}\n"
            f"    {treedef_outline(other)}",
            "both run here and their results are joined into one",
            "return the same structure from every branch",
        )
    names = leaf_names(optree.tree_unflatten(tree, list(range(tree.num_leaves))), "the result")
    joined = []
    for x, y, name in zip(a, b, names, strict=True):
        if x.shape != y.shape:
            raise ShapeError(
                f"{where}: the branches return {x!r} and {y!r} for {name}.",
                "both run here and their results are joined into one",
                "return the same shape from every branch",
            )
        dtype = result_dtype(x, y)
        if x.dtype != y.dtype and not (is_weak(x) or is_weak(y)):
            raise DtypeError(
                f"{where}: the branches return {x!r} and {y!r} for {name}.",
                "both run here and their results are joined into one of one dtype",
                f"cast them: .astype(np.{dtype.name})",
            )
        joined.append(Aval(x.shape, dtype, is_weak(x) and is_weak(y)))
    return joined


def _staged_switch(index, branches: tuple, operands: tuple, where: str):
    template, arrays = partition(operands)
    avals = [signature(x) for x in arrays]
    numbers: list[list[bool]] = []

    def write(f: Callable, dtypes: list | None = None) -> StagedBody:
        """Write a branch down; with dtypes, its Python numbers as arrays of those."""

        def function(*flat):
            leaves, tree = output_leaves(f(*template.fill(flat)), where)
            numbers.append([is_python_number(x) for x in leaves])
            leaves = leaves if dtypes is None else [as_dtype(x, d) for x, d in zip(leaves, dtypes, strict=True)]
            return optree.tree_unflatten(tree, leaves)

        return stage(function, avals, name_of(f), where, whole=True)

    bodies = [write(f) for f in branches]
    common, *others = [
        [Aval(a.shape, a.dtype, n) for a, n in zip(output_avals(body.program), of, strict=True)]
        for body, of in zip(bodies, numbers, strict=True)
    ]
    for body, avals_of in zip(bodies[1:], others, strict=True):
        common = _check_alike(common, avals_of, bodies[0].tree, body.tree, where)
    dtypes = [a.dtype for a in common]
    cast = [
        body if [a.dtype for a in output_avals(body.program)] == dtypes else write(f, dtypes)
        for body, f in zip(bodies, branches, strict=True)
    ]
    programs, captured = captured_inputs(cast, len(avals))
    args = [*[(x if hasattr(x, "dtype") else np.asarray(x)[()]) for x in arrays], *captured]
    unknown = linear_arguments([index, *args])
    if any(unknown[1:]) and not unknown[0]:
        out = switch_linearly(index, args, unknown[1:], tuple(programs))
    else:
        out = bind(switch_op, (index, *args), {"branches": tuple(programs), "linear": 0})
    return optree.tree_unflatten(bodies[0].tree, as_numbers(out, [a.weak for a in common]))


def linear_arguments(args: Sequence) -> list[bool]:
    """Say which arguments belong to the innermost program, if that program must be linear in its inputs."""
    top = max([a for a in args if isinstance(a, Tracer)], key=lambda a: a.level.number, default=None)
    if type(top) is not Staged or not top.level.linear:
        return [False] * len(args)
    return [isinstance(a, Tracer) and a.level is top.level for a in args]


# ── while_loop ───────────────────────────────────────────────────────────────────────────────────────────────────


@public
def while_loop(
    cond_fun: Callable, body_fun: Callable, init: Any, *, max_steps: int | None = None, checkpoints: int | None = None
) -> Any:  # fmt: skip
    """Call a function on its own result while a condition holds.

    Parameters
    ----------
    cond_fun : callable
        ``cond_fun(carry) -> bool``, scalar.
    body_fun : callable
        ``body_fun(carry) -> carry``, of the same structure, shapes and dtypes.
    init : tree of arrays
        The first carry. Its arrays are never written to.
    max_steps : int, optional
        The most steps. A traced program then has reverse mode, and holds the residuals of that many steps.
    checkpoints : int, optional
        With ``max_steps``: of how many steps reverse mode keeps the carry, as for :func:`scan`. The functions are
        written down.

    Returns
    -------
    tree
        The first carry for which the condition does not hold; in a program that has taken ``max_steps`` before, NaN in
        place of its floating and complex numbers.

    Raises
    ------
    TreeError, ShapeError, DtypeError
        If the carry changes its structure, a shape or a dtype.
    RuleMissingError
        In reverse mode through a loop without ``max_steps`` in a traced program whose number of steps depends on traced
        values.
    ConvergenceError
        If the condition holds after ``max_steps``, where values are known.

    Notes
    -----
    Under ``vmap`` the loop runs until all lanes are done, and lanes that are done keep their carry. Outside of
    ``trace`` reverse mode walks back through the steps that were taken, so it works whenever values are known.

    Examples
    --------
    >>> halved = lambda x: da.while_loop(lambda c: c > 1.0, lambda c: c / 2, x)
    >>> da.vmap(da.value_and_grad(halved))(np.array([8.0, 3.0]))
    (array([1.  , 0.75]), array([0.125, 0.25 ]))
    """
    check_callable(cond_fun, "while_loop", "cond_fun")
    check_callable(body_fun, "while_loop", "body_fun")
    if not (max_steps is None or (is_python_number(max_steps) and max_steps == int(max_steps) >= 1)):
        raise ArgumentError(
            f"while_loop: max_steps={max_steps!r}.", "it is a number of steps, 1 or more", "pass max_steps=100"
        )
    check_checkpoints("while_loop", checkpoints)
    if checkpoints is not None and max_steps is None:
        raise ArgumentError(
            f"while_loop: checkpoints={checkpoints} without max_steps.",
            "where the carries are kept depends on how many steps there may be", "pass max_steps=1000 as well",
        )  # fmt: skip
    carry = Carry(init, "while_loop")
    values = carry.start()
    if checkpoints is not None:
        carry.avals = [signature(x) for x in values]
        return _bounded_while(cond_fun, body_fun, carry, values, max_steps, checkpoints)
    if is_traced(values) and not _is_linearized(values):
        return _staged_while(cond_fun, body_fun, carry, values, max_steps)
    for taken in itertools.count():
        going = decider(cond_fun(carry.tree(values)), "while_loop: what cond_fun returned")
        known = known_values(going)
        if known is None:
            return _staged_while(cond_fun, body_fun, carry, values, max_steps and max_steps - taken)
        if not known.any():
            break
        if taken == max_steps:
            raise _unfinished(max_steps)
        if known.all():
            values = carry.accept(body_fun(carry.tree(values)))
        else:
            with np.errstate(divide="ignore", invalid="ignore", over="ignore"):  # of lanes that are done
                new = carry.accept(body_fun(carry.tree([unshared(x) for x in values])))
            values = [np.where(going, a, b) for a, b in zip(new, values, strict=True)]
    return carry.tree(values)


def _is_linearized(values: Sequence) -> bool:
    """Whether a derivative of these values is being recorded, which had better see the steps."""
    return any([type(x) is Dual and x.level.linearizing for value in values for x in layers(value)])


def _staged_while(cond_fun: Callable, body_fun: Callable, carry: Carry, values: list, most: int | None):
    carry.avals = [signature(x) for x in values]
    if most is not None:
        return _bounded_while(cond_fun, body_fun, carry, values, most)
    body, values = staged_body(carry, values, lambda tree: (body_fun(tree), None), [], body_fun)
    test = stage(
        lambda *flat: decider(cond_fun(carry.tree(flat)), "while_loop: what cond_fun returned"),
        carry.avals,
        name_of(cond_fun),
        "while_loop",
    )
    k = len(values)
    params = {
        "test": _capture_first(test, k),
        "body": _capture_first(body, k),
        "constants": (len(test.captured), len(body.captured)),
    }
    return carry.result(bind(while_op, (*test.captured, *body.captured, *values), params))


def _unfinished(max_steps: int) -> ConvergenceError:
    return ConvergenceError(
        f"while_loop: the condition still holds after {max_steps} steps, which is max_steps.",
        "what would be returned is not what the loop is to find",
        "pass a larger max_steps, or count the steps in the carry and end at a number of them",
    )


def _bounded_while(
    cond_fun: Callable, body_fun: Callable, carry: Carry, values: list, most: int, checkpoints: int | None = None
) -> Any:  # fmt: skip
    """Take steps in a scan, those that are left once the condition fails without doing anything."""
    going = lambda tree: decider(cond_fun(tree), "while_loop: what cond_fun returned")

    def step(tree: Any) -> tuple:
        taken = lambda *flat: carry.accept(body_fun(carry.tree(flat)))
        same = lambda *flat: [as_dtype(x, a.dtype) for x, a in zip(flat, carry.avals, strict=True)]
        return carry.tree(cond(going(tree), taken, same, *carry.accept(tree))), None

    body, values = staged_body(carry, values, step, [], body_fun)
    args, k, c = [*body.captured, *values], len(values), len(body.captured)
    if any(linear_arguments(args)):  # the body reads a value of a program that must be linear in it
        out = values
        for _ in range(most):
            out = carry.accept(step(carry.tree(out))[0])
    else:
        params = {"length": most, "reverse": False, "counts": (c, k, 0, 0), "linear": False}
        out = scan_in_segments(args, {"body": _capture_first(body, k), **params}, levels(most, checkpoints))
    left = going(carry.tree(out))
    if checkpoints is not None and (known := known_values(left)) is not None and known.any():
        raise _unfinished(most)
    return carry.tree([np.where(left, np.nan, x) if is_inexact(x.dtype) else x for x in out])


def name_of(f: Callable) -> str:
    """Return the name that a function's program is printed with."""
    return getattr(f, "__name__", type(f).__name__)


def _capture_first(body: StagedBody, count: int):
    return permute_inputs(body.program, [*range(count, len(body.program.inputs)), *range(count)])


def staged_body(carry: Carry, values: list, step: Callable, xs: list, f: Callable) -> tuple[StagedBody, list]:
    """Write a loop's body down, and once more if it gave dtypes to Python numbers in the carry.

    ``step(carry, *xs)`` returns the pair of the new carry and anything else.
    """
    k = len(values)
    while True:
        avals = list(carry.avals)

        def body(*flat):
            new, rest = step(carry.tree(flat[:k]), *flat[k:])
            return carry.accept(new), rest

        staged = stage(body, [*avals, *xs], name_of(f), carry.where)
        if all([a.dtype == b.dtype and a.weak == b.weak for a, b in zip(avals, carry.avals, strict=True)]):
            break
    return staged, [x if a.weak else as_dtype(x, a.dtype) for x, a in zip(values, carry.avals, strict=True)]
