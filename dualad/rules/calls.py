"""Calls of users' functions as operators: trees taken apart, arguments resolved, a function mapped over lanes.

For: custom rules, linear calls, checkpoints and opaque functions, each of which makes one operator of a call. Not for:
what any of them does with it.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic, cast

import numpy as np
import optree

from ..base.arguments import replace_at
from ..base.frames import public
from ..base.signatures import Args, Out
from ..base.tree import flatten, is_array, with_structures
from ..batched import Batched, BatchLevel, LaneDivergence
from ..boundary.transformed import importable_name, pickles_by_value, reduced
from ..core.aval import Aval, aval_of
from ..core.axes import rename
from ..core.capture import check_inside
from ..core.contexts import writing
from ..core.dispatch import bind
from ..core.level import Level
from ..core.primitive import Primitive
from ..core.tracer import Tracer, tracer_in
from ..errors import ArgumentError, ArgumentTypeError, DtypeError, RuleMissingError, ShapeError, TreeError
from ..jvp import jvp
from ..program.ir import stays
from ..surface.leaves import output_leaves
from ..tensors.staged import StagedLevel
from ..transforms.backward import in_dtype
from ..vmap import vmap

__all__ = [
    "Call", "RuledFunction", "Template", "UserFunction", "accepted_names", "call_primitive", "call_shape",
    "check_result_aval", "checked_leaves", "checked_pair", "flat_output", "has_tensor", "innermost", "map_lanes",
    "map_linear", "mapped_function", "of_moving", "partition", "push_moving", "sample_calls",
]  # fmt: skip


class Call:
    """The static part of a call, without its arrays: a parameter of the operator.

    ``function(*arrays)`` and the ``rules`` take and return flat lists of arrays. The structure of the result is left
    in ``trees[0]`` by whichever of them runs; a batched call is another ``Call`` that shares it. ``inner`` is the
    innermost level of the arguments, where it is known: nothing of that level may come in around them.
    """

    __slots__ = ("function", "inner", "kept", "name", "rules", "trees")

    def __init__(
        self, name: str, function: Callable, rules: tuple = (), trees: list | None = None, inner: Level | None = None
    ) -> None:
        self.name, self.function, self.rules = name, function, rules
        self.trees = [None] if trees is None else trees
        self.inner = inner
        #: whether the function does something besides returning, as it turned out
        self.kept = False

    def __reduce__(self):
        # No level is open where it is read again.
        return with_structures(Call, (self.name, self.function, self.rules, self.trees), self.trees[0])

    def __repr__(self) -> str:
        return f"<call of {self.name}>"


class Template:
    """A tree with its arrays taken out: what remains is static."""

    __slots__ = ("arrays", "statics", "tree")

    def __init__(self, arrays: list[int], statics: list, tree: optree.PyTreeSpec) -> None:
        self.arrays, self.statics, self.tree = arrays, statics, tree

    def __reduce__(self):
        return with_structures(Template, (self.arrays, self.statics, self.tree), self.tree)

    def fill(self, values: Sequence) -> Any:
        """Return the tree with these arrays in their places."""
        return optree.tree_unflatten(self.tree, replace_at(self.statics, self.arrays, values))


def partition(tree: Any) -> tuple[Template, list]:
    """Return a tree's template and its arrays."""
    leaves, treedef = flatten(tree)
    arrays = [i for i, x in enumerate(leaves) if isinstance(x, Tracer) or is_array(x)]
    return Template(arrays, replace_at(leaves, arrays, [None] * len(arrays)), treedef), [leaves[i] for i in arrays]


def has_tensor(tree: Any) -> bool:
    """Whether any leaf is a tensor, or an object array that holds one."""
    if type(tree) is tuple and any([isinstance(x, Tracer) for x in tree]):
        return True
    return tracer_in(*flatten(tree)[0]) is not None


def call_shape(*avals: Aval, call: Call) -> tuple[Aval, ...]:
    """Find the avals of the results by running the function on variables of a program that is thrown away."""
    with StagedLevel(f"{call.name} (shapes)") as level:
        token = writing.set(level)
        try:
            out = call.function(*[level.new_input(Aval(a.shape, a.dtype)) for a in avals])
        finally:
            writing.reset(token)
        call.kept = any([stays(op, params) for op, _, params, _ in level.steps])
        if call.inner is not None:
            # What comes in around the arguments would not be there when the program is run.
            constants = [a for _, args, _, _ in level.steps for a in args if isinstance(a, Tracer)]
            others = [x for x in out if isinstance(x, Tracer) and x.level is not level]
            check_inside([*constants, *others], call.inner, None, {"call": call})
        return tuple([aval_of(x) for x in out])


def call_primitive(name: str, **fields: Any) -> Primitive:
    """Declare the operator that calls a function of the user's with a rule of its own in place of those ``given``."""
    run = {"impl": lambda *leaves, call: tuple(call.function(*leaves)), "abstract_eval": call_shape}
    return Primitive(name, multiple_results=True, raises=True, kind="custom", **{**run, **fields})


def sample_calls(rules: Callable) -> Callable:
    """Make sample calls of x, y ↦ (sin x · y, x + y) with the given maker of rules."""

    def function(x, y):
        return [np.sin(x) * y, x + y]

    def samples():
        call = Call("sample", function, rules(), [flatten([0.0, 0.0])[1]])
        return [((3,), (3,), {"call": call}), ((), (), {"call": call})]

    return samples


def innermost(arrays: Sequence) -> Level | None:
    """Return the innermost level among tensors."""
    levels = [x.level for x in arrays if isinstance(x, Tracer)]
    return max(levels, key=lambda level: level.number, default=None)


def of_moving(function: Callable, primals: Sequence, moving: Sequence[int]) -> tuple[Callable, list]:
    """Return a function of flat arguments as one of those that move, and these."""
    return lambda *values: function(*replace_at(primals, moving, values)), [primals[i] for i in moving]


def push_moving(function: Callable, primals: Sequence, tangents: Sequence) -> tuple[Any, Any]:
    """Return value and tangent of a function of flat arguments, some of which may not move (tangent ``None``)."""
    moving = [i for i, t in enumerate(tangents) if t is not None]
    f, chosen = of_moving(function, primals, moving)
    return jvp(f, chosen, [in_dtype(tangents[i], aval_of(p).dtype) for i, p in zip(moving, chosen, strict=True)])


def mapped_function(function: Callable, mapped: Sequence[bool], size: int) -> Callable:
    """Map a function of flat arguments over the leading axis of the mapped ones; every result has one."""
    return vmap(function, tuple([0 if m else None for m in mapped]), axis_size=size, randomness="same")


def map_lanes(function: Callable, values: Sequence, mapped: Sequence[bool], size: int) -> tuple[list, list[bool]]:
    """Run a function over lanes; return its results and which of them have the batch axis.

    Values shared by all lanes stay one array, as residuals such as a layer's weights should.
    """
    with BatchLevel("vmap", size) as level, rename(level):
        try:
            out = function(*[Batched(v, level) if m else v for v, m in zip(values, mapped, strict=True)])
        except LaneDivergence as split:
            if split.level is not level:
                raise
        if level.diverged is None:
            own = [type(x) is Batched and x.level is level for x in out]
            return [x._value if m else x for x, m in zip(out, own, strict=True)], own
    # Lanes disagree about a branch: vmap runs them in groups and joins everything.
    out = list(mapped_function(function, mapped, size)(*values))
    return out, [True] * len(out)


def map_linear(function: Callable, mapped: Sequence[bool], size: int) -> Callable:
    """Map ``function(residuals, vectors)`` over a leading axis of all vectors that are not ``None``."""

    def run(residuals: Sequence, vectors: Sequence) -> list:
        n, moving = len(residuals), [i for i, v in enumerate(vectors) if v is not None]

        def lane(*values):
            return list(function(list(values[:n]), replace_at([None] * len(vectors), moving, values[n:])))

        over_lanes = mapped_function(lane, [*mapped, *[True] * len(moving)], size)
        return list(over_lanes(*residuals, *[vectors[i] for i in moving]))

    return run


# ── the user's function ──────────────────────────────────────────────────────────────────────────────────────────


class UserFunction:
    """A decorated function of a user's: its name, its arguments in order, and how it is pickled (by name)."""

    def __init__(self, f: Callable, nondiff_argnums: int | Sequence[int] = ()) -> None:
        if not callable(f):
            raise ArgumentTypeError(
                f"{type(self).__name__} was given {f!r} of type {type(f).__name__}.",
                "it decorates a function",
                f"write @{type(self).__name__} above a def",
            )
        # Not the attributes: f may itself be such an object, with a function and a rule of its own.
        functools.update_wrapper(self, f, updated=())
        self.f = f
        self._signature = _signature_of(f)
        self._arity = _arity(self._signature)
        self.__name__ = getattr(f, "__name__", type(f).__name__)
        numbers: tuple[Any, ...] = (nondiff_argnums,) if isinstance(nondiff_argnums, int) else tuple(nondiff_argnums)
        if any(isinstance(n, bool) or not isinstance(n, int) or n < 0 for n in numbers):
            raise ArgumentTypeError(
                f"{type(self).__name__}: nondiff_argnums={nondiff_argnums!r}.",
                "it names positions of arguments, counted from 0",
                "pass an int or a tuple of ints",
            )
        self.nondiff_argnums = tuple(sorted(set(numbers)))

    def __get__(self, instance, owner=None):
        return self if instance is None else functools.partial(self, instance)

    def __reduce__(self):
        name = importable_name(self)
        if name is not None:
            return name
        # What has no name of its own is sent together with its rules; of a script's functions cloudpickle makes values.
        if not pickles_by_value() and "<" in self.__qualname__:
            raise ArgumentTypeError(
                f"pickling: `{self.__qualname__}` is defined inside a function.",
                "a function with a rule is pickled by its name, and this one can't be imported by name",
                "define it at the top of a module",
            )
        return reduced(self)

    def __copy__(self):
        return self  # as of any function

    def __deepcopy__(self, memo: dict):
        return self

    def resolved(self, args: tuple, kwargs: dict) -> tuple[tuple, dict]:
        """Resolve keyword arguments and defaults to positions; return them, and what can be passed by name only."""
        if len(args) == self._arity and not kwargs:
            return args, kwargs
        if self._signature is None:
            if kwargs:
                raise ArgumentError(
                    f"`{self.__name__}` was called with keyword arguments {sorted(kwargs)}, and has no signature.",
                    "a custom rule is given its arguments by position",
                    "pass them by position",
                )
            return args, kwargs
        try:
            bound = self._signature.bind(*args, **kwargs)
        except TypeError as error:
            raise ArgumentTypeError(
                f"`{self.__name__}` was called with arguments that it does not take: {error}.",
                "a custom rule needs to know which argument is which before the function runs",
                f"call it as {self.__name__}{self._signature}",
            ) from None
        bound.apply_defaults()
        # Those that are left at their defaults every function sees for itself.
        by_name = {name: x for name, x in bound.kwargs.items() if name in kwargs}
        if by_name and has_tensor(by_name):
            traced = sorted(name for name, x in by_name.items() if has_tensor(x))
            raise ArgumentTypeError(
                f"`{self.__name__}`: the keyword-only arguments {traced} are traced in this call.",
                "a rule has derivatives for arguments that have a position",
                "take the * out of the signature, so that they have one",
            )
        return bound.args, by_name

    def given_names(self, rule: Callable, by_name: dict, which: str) -> Callable:
        """Return a rule with the keyword-only arguments of this call, which it has to have parameters for."""
        if not by_name:
            return rule
        missing = sorted(set(by_name) - accepted_names(rule, by_name))
        if missing:
            raise ArgumentError(
                f"`{self.__name__}` was given keyword-only arguments {missing}; {which} has no parameters for them.",
                "a rule is given by name what the function is given by name only",
                "add them to the rule's parameters, or bind them with functools.partial before it is decorated",
            )
        return functools.partial(rule, **by_name)

    def check_rule(self, rule: Any, where: str, instead: str) -> None:
        """Refuse a rule that is no function; ``where`` is what it was given to."""
        if not callable(rule):
            raise ArgumentTypeError(f"`{self.__name__}`.{where} {rule!r}.", "a rule is a function", instead)

    def split_nondiff(self, args: tuple) -> tuple[tuple, tuple]:
        """Return the arguments named by ``nondiff_argnums``, which must not be traced, and the others."""
        held = []
        for n in self.nondiff_argnums:
            if n >= len(args):
                raise ArgumentError(
                    f"`{self.__name__}`: nondiff_argnums has {n}, but the call has {len(args)} arguments.",
                    "it names positions of arguments",
                    f"choose from 0 to {len(args) - 1}",
                )
            if has_tensor(args[n]):
                raise ArgumentTypeError(
                    f"`{self.__name__}`: argument {n} is in nondiff_argnums, and is traced in this call.",
                    "its derivative would be dropped silently",
                    "leave it out of nondiff_argnums and let the rule return None as its cotangent (or a zero tangent),"
                    " or pass dualad.stop_gradient(x) computed outside the transform",
                )
            held.append(args[n])
        return tuple(held), tuple([a for i, a in enumerate(args) if i not in self.nondiff_argnums])

    def joined(self, held: tuple, others: Sequence) -> list:
        """Put the arguments that ``split_nondiff`` took apart back in order."""
        full = list(others)
        for n, x in zip(self.nondiff_argnums, held, strict=True):
            full.insert(n, x)
        return full


class RuledFunction(UserFunction, Generic[Args, Out]):
    """A function with a rule of the user's: called under a transform it is one operator, otherwise it is what it is."""

    #: the operator, the attribute that holds the rule, what that decides, and how it is set
    _operator: Primitive
    _rule: str
    _decides: str
    _define: str

    @public
    def __call__(self, *args: Args.args, **kwargs: Args.kwargs) -> Out:
        """Call the function; under a transform, as one operator with the rule."""
        if getattr(self, self._rule) is None:
            raise RuleMissingError(
                f"the {type(self).__name__} function `{self.__name__}` was called without a rule.",
                f"{self._decides} is whatever its rule says, and it has none",
                f"define one: {self._define.format(self.__name__)}",
            )
        if not has_tensor(args) and not (kwargs and has_tensor(kwargs)):
            return self.f(*args, **kwargs)
        positional, by_name = self.resolved(args, kwargs)
        held, others = self.split_nondiff(positional)
        template, arrays = partition(others)
        trees: list = [None]

        def function(*values):
            out = self.f(*self.joined(held, template.fill(values)), **by_name)
            return flat_output(out, f"`{self.__name__}`", trees)

        rules = self._rules(held, others, by_name, template, arrays, trees)
        call = Call(self.__name__, function, rules, trees, innermost(arrays))
        out = bind(self._operator, arrays, {"call": call})
        return cast(Out, optree.tree_unflatten(trees[0], list(out)))

    def _rules(
        self, held: tuple, others: tuple, by_name: dict, template: Template, arrays: list, trees: list
    ) -> tuple[Callable, ...]:
        """Return the rules on flat lists of arrays, as the operator calls them."""
        raise NotImplementedError


def _signature_of(f: Callable) -> inspect.Signature | None:
    """Return a function's signature; of a ufunc none, because out= and the like are no arguments of its rule."""
    try:
        return None if isinstance(f, np.ufunc) else inspect.signature(f)
    except (TypeError, ValueError):
        return None


def accepted_names(f: Callable, names: Iterable[str]) -> set[str]:
    """Return those of the names that a function can be given as keywords."""
    signature = _signature_of(f)
    if signature is None:
        return set()
    parameters = signature.parameters.values()
    if any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters):
        return set(names)
    return {p.name for p in parameters if p.kind is inspect.Parameter.KEYWORD_ONLY}.intersection(names)


def _arity(signature: inspect.Signature | None) -> int | None:
    """Return how many arguments make a call complete as it is, where all of them are positional."""
    kinds = {p.kind for p in signature.parameters.values()} if signature is not None else {None}
    positional = {inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD}
    return len(signature.parameters) if signature is not None and kinds <= positional else None


def flat_output(out: Any, where: str, trees: list) -> list:
    """Flatten a result of a function (or of its rule) into arrays, leaving its structure in ``trees``."""
    leaves, trees[0] = output_leaves(out, where)
    return [x if hasattr(x, "dtype") else np.asarray(x)[()] for x in leaves]


# ── checks of what rules return ──────────────────────────────────────────────────────────────────────────────────


def checked_leaves(given: Sequence, avals: Sequence[Aval | None], names: Sequence[object], where: str) -> list:
    """Check that the leaves of a rule's result have shapes and dtypes; return them, ``None`` where there is no aval.

    ``None`` in place of a leaf stays ``None``: zero. ``where`` begins the messages ("the bwd rule of `f`").
    """
    leaves: list[Any] = []
    for x, aval, name in zip(given, avals, names, strict=True):
        if aval is None or x is None:
            leaves.append(None)
            continue
        if not is_array(x):
            raise TreeError(
                f"{where} returned {x!r} of type {type(x).__name__} for {name}.",
                "it returns numbers and arrays",
                "return None where it is zero",
            )
        a = check_result_aval(
            x, aval, name, where,
            "tangents and cotangents have the shapes of what they belong to, and nothing is summed silently",
            "sum over the axes along which it was broadcast, or broadcast it as the value itself is",
        )  # fmt: skip
        leaves.append(_of_dtype(x, a, aval, name, where))
    return leaves


def check_result_aval(x: Any, aval: Aval, name: object, where: str, why: str, instead: str) -> Aval:
    """Return the aval of what a function of the user's returned, which has to have a shape."""
    a = aval_of(x)
    if a.shape != aval.shape:
        raise ShapeError(f"{where} returned shape {a.shape} for {name}; expected {aval.shape}.", why, instead)
    return a


def checked_pair(given: Any, where: str, pair: str, end: str) -> tuple:
    """Check that a rule returned a pair."""
    if not (isinstance(given, tuple) and len(given) == 2):
        returned = f"{len(given)} values" if isinstance(given, tuple) else f"a {type(given).__name__}"
        raise TreeError(f"{where} returned {returned}.", f"it returns the pair {pair}", end)
    return given


def _of_dtype(x, a: Aval, aval: Aval, name: object, where: str):
    if a.weak and a.dtype.kind in {"f": "bif", "c": "bifc"}[aval.dtype.kind]:
        return np.asarray(x, aval.dtype)[()]
    if a.dtype != aval.dtype:
        from_complex = a.dtype.kind == "c" and aval.dtype.kind == "f"
        raise DtypeError(
            f"{where} returned dtype {a.dtype} for {name}; expected {aval.dtype}.",
            "tangents and cotangents have the dtypes of what they belong to",
            "take np.real of it: the argument is real" if from_complex else f"cast it: .astype(np.{aval.dtype.name})",
        )
    return x
