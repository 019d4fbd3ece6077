"""The batching transform: ``vmap``.

For: axis specifications, in and out. The batch axis is moved to the front once, here, so that no rule ever sees
another position. Not for: batching rules (``ops/``) or the Batched tensor (``batched.py``).
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import optree

from .base.arguments import check_callable, own_results
from .base.frames import user_level
from .base.signatures import Args
from .base.tree import LeafName, flatten, flatten_prefix, holds_records, is_array, with_structures
from .batched import Batched, BatchLevel, LaneDivergence
from .boundary.boundary import run
from .boundary.randomness import DIFFERENT, Draws, RandomnessWarning, Watched, drawing
from .boundary.transformed import Transformed, transform
from .core.above import ABOVE
from .core.axes import Lanes, check_new, rename
from .core.contexts import active
from .core.tracer import Tracer
from .errors import (
    ArgumentError,
    ArgumentTypeError,
    BranchError,
    ConversionError,
    DualadError,
    OutputError,
    PerformanceNote,
    PlainBufferError,
    UnsupportedError,
    noted,
)
from .memory.memory import pin, unshared
from .ops.kinds import known_value, repeat_lanes
from .ops.scans import equal_or_both_nan
from .surface.leaves import as_primal, output_leaves, plain_leaf
from .surface.objects import join
from .tensors.chunks import Chunking, Plan, refuse_traced

__all__ = ["vmap"]


@transform
def vmap(
    f: Callable[Args, Any], in_axes: Any = 0, out_axes: Any = 0, *, axis_size: int | None = None,
    branches: str = "split", max_splits: int = 64, chunk_size: int | None = None, max_memory: int | None = None,
    executor: Any = None, progress: bool = False, axis_name: str | None = None, randomness: str = "error",
) -> Callable:  # fmt: skip
    """Batch a function: map it over an axis of its arguments without a loop.

    Parameters
    ----------
    f : callable
        The function of one example, in plain NumPy.
    in_axes : int, None, or tree of them
        Which axis of each positional argument is mapped; ``None`` is not mapped; negative axes count from the end. A
        tuple or list has one entry per argument, and each entry may be a tree that is a prefix of that argument.
        Arguments passed by keyword are mapped over axis 0. Leaves that are not arrays are never mapped.
    out_axes : int, None, or tree of them
        Where the batch axis goes in the result; ``None`` only for results that are the same in all lanes.
    axis_size : int, optional
        Number of lanes; needed only when nothing is mapped.
    branches : {"split", "error"}
        What happens where lanes disagree about a Python branch (``if``, ``while``, ``int(n)``, ``range(n)``, a boolean
        mask as an index): the lanes are split into groups that agree and ``f`` runs once per group, from its
        beginning, so that side effects happen once per group too; or a ``BranchError`` is raised.
    max_splits : int
        How many groups there may be.
    chunk_size : int, optional
        How many lanes to run at a time; all by default. Smaller chunks take less memory and run ``f`` once per chunk.
    max_memory : int, optional
        About how many bytes to use at a time, in place of ``chunk_size``: the first lanes are run alone and measured.
    executor : Executor, optional
        Whose workers compute the chunks, side by side: a ``concurrent.futures.ProcessPoolExecutor``,
        ``client.get_executor()`` of Dask, MPI's, :func:`dualad.resilient`, anything with ``submit``. Without
        ``chunk_size`` there are four chunks a worker. The result is that of the same chunks computed here.
    progress : bool
        Whether to show a bar on a terminal, with tqdm if it is installed.
    axis_name : str, optional
        A name for the mapped axis, by which collectives (:func:`dualad.psum` and its like) reach across its lanes. All
        lanes then run together: there are no chunks, and lanes that disagree about a branch are an error.
    randomness : {"error", "same", "different"}
        What a random number drawn in ``f`` means: it is refused; it is the same in all lanes; each lane has its own,
        drawn with a leading axis. Draws are seen from generators among the arguments, through ``dualad.numpy.random``,
        and in lifted code. Others are found out afterwards: ``"error"`` then warns that all lanes have shared the
        numbers (``RandomnessWarning``), and ``"different"`` refuses.

    Returns
    -------
    callable
        The batched function, of the same arguments.

    Raises
    ------
    ArgumentError, ArgumentTypeError
        For axes that are out of range, inconsistent, of the wrong type or missing.
    BranchError
        Where lanes disagree, with ``branches="error"`` or beyond ``max_splits``.

    Examples
    --------
    >>> dot = lambda a, b: np.sum(a * b)
    >>> da.vmap(dot, in_axes=(0, None))(np.eye(2), np.array([3.0, 4.0]))
    array([3., 4.])
    """
    check_callable(f, "vmap")
    _check_axis_types(in_axes, "in_axes")
    _check_axis_types(out_axes, "out_axes")
    for name, count, least in (("axis_size", axis_size, 0), ("max_splits", max_splits, 1)):
        if count is not None and (isinstance(count, bool) or not hasattr(count, "__index__") or count < least):
            raise ArgumentError(f"vmap: {name}={count!r}.", "it is a number", f"pass an int of at least {least}")
    if branches not in ("split", "error"):
        raise ArgumentError(f"vmap: branches={branches!r}.", "there are two ways", "use 'split' or 'error'")
    if randomness not in ("error", "same", DIFFERENT):
        raise ArgumentError(
            f"vmap: randomness={randomness!r}.", "there are three ways", "use 'error', 'same' or 'different'"
        )
    chunks = Chunking("vmap", chunk_size, max_memory, executor, progress)
    _check_axis_name(axis_name, chunks)
    if executor is not None and randomness != "error":
        raise ArgumentError(
            f"vmap: randomness={randomness!r} was given together with executor=.",
            "each worker has a copy of the generator, whose numbers would come again and again",
            "draw the numbers outside, with an axis for the lanes, and map over them",
        )
    name = getattr(f, "__name__", type(f).__name__)

    def batched(*args, **kwargs):
        leaves, treedef = flatten((args, kwargs))
        spec: tuple = (tuple(in_axes) if isinstance(in_axes, list) else in_axes, 0 if kwargs else {})
        if isinstance(spec[0], tuple) and len(spec[0]) != len(args):
            raise ArgumentError(
                f"vmap: in_axes has {len(spec[0])} entries, the call has {len(args)} positional arguments.",
                "a tuple in_axes has one entry per positional argument",
                f"write in_axes={(0,) * len(args)} (None for an argument that is not mapped), or a single axis for all",
            )
        names = [_ArgumentName((args, kwargs), "", i) for i in range(len(leaves))]
        axes = flatten_prefix(spec, treedef, "in_axes", "the arguments", _is_axis)
        if any(axes) and holds_records(treedef):
            raise ArgumentError(
                f"vmap: in_axes={in_axes!r} with a structured array.",
                "its fields have axes of their own behind those of the array, so that another axis is not one of all",
                "map over axis 0, after np.moveaxis(x, axis, 0)",
            )
        axes = [_in_axis(x, a, n) for x, a, n in zip(leaves, axes, names, strict=True)]
        size = _size(leaves, axes, names, axis_size, axis_name)
        shared = [x if a is None else None for x, a in zip(leaves, axes, strict=True)]
        across = [np.moveaxis(x, a, 0) if a else x for x, a in zip(leaves, axes, strict=True) if a is not None]
        across = [join(x) if x.dtype == object else x for x in across]
        # A lane is a view of the caller's array, whose strides matter where it is not in C order.
        strided = [x.strides[1:] if type(x) is np.ndarray and not x.flags.c_contiguous else () for x in across]
        rest = iter(strided)
        strides = [None if a is None else next(rest) for a in axes]
        job = _Lanes(f, treedef, shared, strides, size, (branches, max_splits, randomness))
        where = f"vmap({name})"
        refuse_traced(leaves, executor, where)
        if chunks.is_whole:
            parts = [job(0, size, *across)]
        else:
            cut = lambda ranges: [tuple([x[start:stop] for x in across]) for start, stop in ranges]
            parts = chunks.run(Plan(job, size, cut, where, "lanes", f, each=4))
        out_tree = _one_structure([p.tree for p in parts], name)
        places = flatten_prefix(out_axes, out_tree, "out_axes", "the result", _is_axis)
        # Results computed elsewhere may have come back read-only; joining makes them the caller's own.
        whole = len(parts) == 1 and executor is None
        values = parts[0].values if whole else _join_chunks(parts, places, name)
        results = [_out(x, a, size, name) for x, a in zip(values, places, strict=True)]
        if (watch := active()) is not None:
            watch.finished("vmap", results)
        job.check_randomness()
        return optree.tree_unflatten(out_tree, results)

    return Transformed(batched, f, "vmap")


class _Part:
    """The results of some of the lanes: how many they are, values and their structure."""

    __slots__ = ("count", "tree", "values")

    def __init__(self, count: int, values: list, tree: optree.PyTreeSpec) -> None:
        self.count, self.values, self.tree = count, values, tree

    def __reduce__(self):
        return with_structures(_Part, (self.count, self.values, self.tree), self.tree)


class _Lanes:
    """One call of a batched function: all it needs but the mapped arrays, of which it is given lanes.

    ``leaves`` are those of the arguments that are not mapped, ``strides`` those of a lane of the others (``()`` in C
    order), ``options`` are branches, max_splits and randomness.
    """

    __slots__ = (
        "away", "draws", "f", "leaves", "mapped", "name", "options", "seen_leaves", "size", "strides", "treedef",
        "watched",
    )  # fmt: skip

    def __init__(
        self, f: Callable, treedef: optree.PyTreeSpec, leaves: list, strides: list, size: int, options: tuple,
        away: bool = False,
    ) -> None:  # fmt: skip
        self.f, self.treedef, self.leaves, self.strides = f, treedef, leaves, strides
        self.mapped = [s is not None for s in strides]
        self.size, self.options, self.away = size, options, away
        self.name = getattr(f, "__name__", type(f).__name__)
        self.seen_leaves = [ABOVE.seeing(x) if type(x).__module__.startswith("numpy.random") else x for x in leaves]
        self.draws = Draws(options[2], size, self.name)
        self.watched = None if options[2] == "same" else Watched(f, self.seen_leaves)

    def __reduce__(self):
        args = (self.f, self.treedef, self.leaves, self.strides, self.size, self.options, True)
        return with_structures(_Lanes, args, self.treedef)

    def __call__(self, start: int, stop: int, *across: Any) -> _Part:
        """Run lanes ``start`` to ``stop``, of which the mapped arrays are given."""
        rest = iter(across)
        lanes = [next(rest) if m else x for x, m in zip(self.seen_leaves, self.mapped, strict=True)]
        part = _Part(stop - start, *self._some(lanes, self.size if stop - start == self.size else stop - start, start))
        if self.away:  # its caller doesn't see the draws made here
            self.check_randomness()
        return part

    def check_randomness(self) -> None:
        """Say if generators have moved though nobody saw a draw."""
        if self.watched is not None and (moved := self.watched.moved(self.draws.seen)):
            _tell_of_randomness(self.options[2], moved[0], self.name)

    def _run(self, values: list, count: int, part=None, writable: bool = False):
        with BatchLevel("vmap", count) as level, rename(level), drawing(self.draws, level, part):
            level.function = self.f
            inputs = [
                x if s is None else Batched(x, level) if not s else pin(Batched(x, level), s)
                for x, s in zip(values, self.strides, strict=True)
            ]
            for i, (x, m) in enumerate(zip(inputs, self.mapped, strict=True)):
                if m:
                    x._origin = (self.treedef, i, True)
            inner_args, inner_kwargs = optree.tree_unflatten(self.treedef, inputs)
            around = noted.get()
            before = len(around or ())
            try:
                out = run(self.f, inner_args, inner_kwargs, writable)
            except LaneDivergence as split:
                if split.level is not level:
                    raise
            except Exception as error:
                # NumPy makes an error of it where a plain array is indexed, or asks for an array of the index.
                met = level.diverged
                asked = met is not None and met.about_an_index and isinstance(error, _ASKED)
                if met is None or (isinstance(error, DualadError) and not asked):
                    _name_lanes(error, part, self.size, self.name)
                    raise
            if level.diverged is not None:
                if around is not None:
                    del around[before:]  # what a run that is given up was refused is forgotten
                return level.diverged
            out_leaves, out_tree = output_leaves(out, "vmap", self.leaves, statics=True)
            # With the batch axis in front, or as the same for all lanes.
            return [x._value if type(x) is Batched and x.level is level else _Same(x) for x in out_leaves], out_tree

    def _some(self, lanes: list, count: int, start: int):
        branches, max_splits, _ = self.options
        part = None if count == self.size else np.arange(start, start + count)
        results = self._run(lanes, count, part)
        if isinstance(results, LaneDivergence) and results.about_an_index and not all(self.mapped):
            # A plain array that all lanes share may be indexed: as a buffer it takes all lanes at once.
            with contextlib.suppress(Exception):
                together = self._run(lanes, count, part, writable=True)
                if not isinstance(together, LaneDivergence):
                    return together
        if isinstance(results, LaneDivergence):
            if type(count) is Lanes:
                raise _disagreement_error(results, self.name, _TOGETHER) from results.error
            if branches == "error":
                raise _disagreement_error(results, self.name) from results.error
            results = self._in_groups(lanes, results, max_splits, start)
        return results

    def _in_groups(self, lanes: list, split: LaneDivergence, limit: int, start: int):
        """Run the function once per group of lanes that agree, splitting further as needed; put the lanes in order."""
        name, waiting = self.name, list(reversed(split.groups))
        parts: list[tuple[np.ndarray, list, optree.PyTreeSpec]] = []
        while waiting:
            if len(parts) + len(waiting) > limit:
                raise _disagreement_error(
                    split, name, f"there are more than max_splits={limit} groups of lanes that agree"
                )
            group = waiting.pop()
            values = [np.take(x, group, axis=0) if m else x for x, m in zip(lanes, self.mapped, strict=True)]
            result = self._run(values, len(group), start + group)
            if isinstance(result, LaneDivergence):
                waiting += [group[g] for g in reversed(result.groups)]
            else:
                parts.append((group, *result))
        warnings.warn(
            f"vmap({name}): lanes disagree about {split.what}; the function ran for {len(parts)} groups of lanes."
            f" {split.instead} keeps them together.",
            PerformanceNote,
            stacklevel=user_level(),
        )
        groups, values, trees = zip(*parts, strict=True)
        out_tree = _one_structure(trees, name)
        counts = [len(group) for group in groups]
        order = np.argsort(np.concatenate(groups), kind="stable")
        joined = [np.take(_join(column, counts, name), order, axis=0) for column in zip(*values, strict=True)]
        return joined, out_tree


def _tell_of_randomness(randomness: str, generator: Any, name: str) -> None:
    """Say that random numbers were drawn where nobody could see it, so that the lanes have shared them."""
    what = f"vmap({name}): random numbers were drawn from {generator!r} by code that calls NumPy's (or Python's) own"
    instead = (
        "draw through dualad.numpy.random (rng = dualad.numpy.random.default_rng(0); import dualad.numpy as np), pass"
        " the generator as an argument, or lift the function, and say randomness='different' or 'same'; or draw"
        " outside, with an axis for the lanes, and map over it"
    )
    if randomness == DIFFERENT:
        raise UnsupportedError(
            f"{what} generator, with randomness='different'.",
            "those draws can't be seen, so every lane had the same numbers",
            instead,
        )
    if randomness == "error":
        warnings.warn(
            f"{what} generator: all lanes that ran together have shared them, where a loop would have drawn for each."
            f" Where that is meant, say randomness='same'; otherwise {instead}.",
            RandomnessWarning,
            stacklevel=user_level(),
        )


def _is_axis(x) -> bool:
    return x is None or (isinstance(x, (int, np.integer)) and not isinstance(x, bool))


def _check_axis_types(axes: Any, name: str) -> None:
    for leaf in optree.tree_leaves(axes, none_is_leaf=True, namespace="dualad"):
        if not _is_axis(leaf):
            raise ArgumentTypeError(
                f"vmap: {name} holds {leaf!r} of type {type(leaf).__name__}.",
                "an axis is an integer, or None for what is not mapped",
                f"write {name}=0, or a tuple such as (0, None)",
            )


def _in_axis(x, axis, name: object):
    """Return the axis to map a leaf over, made non-negative, or None."""
    if axis is None:
        return None
    if not is_array(x):
        plain_leaf(x, name, "vmap")
        return None
    ndim = np.ndim(as_primal(x, name, "vmap"))
    if not -ndim <= axis < ndim:
        raise ArgumentError(
            f"vmap: in_axes has axis {axis} for {name}, which has {ndim} dimensions"
            f"{'' if ndim else ' (a number)'} and shape {np.shape(x)}.",
            "there is no such axis to map over",
            "use None for an argument that is the same in all lanes",
        )
    return axis % ndim


def _size(leaves, axes, names, axis_size, axis_name: str | None) -> int:
    """Return the number of lanes, with the name of the axis; a rule that maps lanes again hands it on as axis_size."""
    sizes: dict = {n: x.shape[a] for x, a, n in zip(leaves, axes, names, strict=True) if a is not None}
    if axis_size is not None:
        sizes["axis_size"] = axis_size
    if not sizes:
        raise ArgumentError(
            "vmap: nothing is mapped (there are no array arguments, or in_axes is None for all of them).",
            "the number of lanes can't be known",
            "map at least one argument, or pass axis_size=",
        )
    if len(set(sizes.values())) > 1:
        raise ArgumentError(
            "vmap: the mapped axes have different sizes: " + ", ".join(f"{n} has {s}" for n, s in sizes.items()) + ".",
            "lane i takes entry i of every mapped argument",
            "choose axes of one size in in_axes, or None for an argument that is the same in all lanes",
        )
    size = next(iter(sizes.values()))
    if axis_name is None:
        return Lanes(size, axis_size.name) if type(axis_size) is Lanes else size
    check_new(axis_name)
    return Lanes(size, axis_name)


# ── names of axes ────────────────────────────────────────────────────────────────────────────────────────────────

#: the error where NumPy asks for an array of an index
_ASKED = (ConversionError, PlainBufferError)
_TOGETHER = "the axis has a name, so that collectives may need all of its lanes at once; it can't be run in groups"


def _check_axis_name(axis_name, chunks: Chunking) -> None:
    if axis_name is None:
        return
    if not isinstance(axis_name, str):
        raise ArgumentTypeError(
            f"vmap: axis_name is {axis_name!r} of type {type(axis_name).__name__}.",
            "a name is a string",
            "write axis_name='i'",
        )
    if not chunks.is_whole:
        raise ArgumentError(
            f"vmap: axis_name={axis_name!r} was given together with chunk_size, max_memory, executor or progress.",
            "a collective needs all lanes of the axis at once",
            "leave one of them out",
        )


class _Same:
    """A result that does not depend on the lane."""

    __slots__ = ("value",)

    def __init__(self, value) -> None:
        self.value = value


def _out(x, axis, size: int, name: str):
    if axis is None:
        if not isinstance(x, _Same):
            raise ArgumentError(
                f"vmap: out_axes is None for a result of shape {x.shape[1:]} that differs between lanes (in `{name}`).",
                "one value can't stand for all lanes",
                "give it an axis such as out_axes=0, or reduce it in the function",
            )
        return x.value
    value = _repeated(x.value, size) if isinstance(x, _Same) else x
    ndim = len(value.shape)
    if not -ndim <= axis < ndim:
        raise ArgumentError(
            f"vmap: out_axes has axis {axis} for a result that has {ndim} dimensions with its batch axis.",
            "there is no such place for the batch axis",
            f"choose an axis from {-ndim} to {ndim - 1}",
        )
    (value,) = own_results([value])
    return np.moveaxis(value, 0, axis) if axis % ndim else value


def _repeated(x, size: int):
    """Return a value repeated for each lane; of a tensor no view that is read-only: it is a result like others."""
    value = repeat_lanes(x, size)
    return unshared(value) if isinstance(value, Tracer) else value


def _join_chunks(parts: list[_Part], places: list, name: str) -> list:
    """Join the results of chunks; what goes to no axis has to be the same in all of them."""
    counts = [p.count for p in parts]
    return [
        column[0] if axis is None and _is_one(column) else _join(column, counts, name)
        for column, axis in zip(zip(*[p.values for p in parts], strict=True), places, strict=True)
    ]


def _is_one(column: Sequence) -> bool:
    """Whether results of chunks, each the same in its lanes, are one value; unless that is not known yet."""
    if not all([isinstance(x, _Same) for x in column]):
        return False
    values = [known_value(x.value) for x in column]
    plain = [np.asarray(v) for v in values if v is not None]
    return all([v.shape == plain[0].shape and equal_or_both_nan(v, plain[0]).all() for v in plain])


def _join(column: Sequence, counts: list[int], name: str) -> Any:
    """Join results of groups of lanes along the batch axis."""
    blocks = [repeat_lanes(x.value, n) if isinstance(x, _Same) else x for x, n in zip(column, counts, strict=True)]
    shapes = {b.shape[1:] for b in blocks}
    if len(shapes) > 1:
        raise OutputError(
            f"vmap: lanes of `{name}` returned different shapes: {', '.join(map(str, sorted(shapes)))}.",
            "the results of all lanes are joined into one array",
            "reduce the result in the function (np.sum, np.max), or write it into an array of a fixed shape",
        )
    return np.concatenate(blocks)


def _one_structure(trees: Sequence[optree.PyTreeSpec], name: str) -> optree.PyTreeSpec:
    if any([tree != trees[0] for tree in trees]):
        raise OutputError(
            f"vmap: branches of `{name}` returned results of different structures.",
            "the results of all lanes are joined into one, and what is no array (text, say) is the same for all",
            "return the same structure from every branch, and numbers where lanes differ",
        )
    return trees[0]


def _disagreement_error(split: LaneDivergence, name: str, why: str = "") -> BranchError:
    return BranchError(
        f"vmap({name}): lanes disagree about {split.what}.",
        why or "a Python branch goes one way for all lanes at once, and branches='error' forbids splitting them",
        f"use {split.instead}, or vmap(f, branches='split', max_splits=...), which runs the function once per group of"
        " lanes that agree",
    )


def _name_lanes(error: Exception, lanes: np.ndarray | None, size: int, name: str) -> None:
    """Note on an exception of the function's which lanes raised it, where not all of them did."""
    if lanes is not None:
        which = ", ".join(map(str, lanes[:8])) + (", …" if len(lanes) > 8 else "")
        error.add_note(f"vmap({name}): raised in lane{'s' if len(lanes) > 1 else ''} {which} of {size}")


class _ArgumentName(LeafName):
    """The name of a leaf of (args, kwargs) as the caller knows it: ``argument 1['w']``."""

    __slots__ = ()

    def __str__(self) -> str:
        path = super().__str__()
        if path.startswith("[0][") and "]" in path[4:]:
            number, _, rest = path[4:].partition("]")
            return f"argument {number}{rest}"
        return f"argument {path.removeprefix('[1]')}"
