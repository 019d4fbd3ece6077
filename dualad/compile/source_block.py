"""The equations of a program as lines of source: numbers, calls of NumPy, entries, groups in blocks.

Not for: functions and their fallback (``numpy_source.py``), loops (``source_loops.py``).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..control.subprograms import strong_aval
from ..core.aval import Aval, aval_of, is_weak
from ..ops.indexing import _native
from ..program.ir import Program, last_uses
from ..program.variable import Variable
from .blocks import Region, strong_product
from .native.equations import Equations
from .scalars import BOOLEAN, FLOAT, LOGICAL, MATHEMATICS, SIGNS
from .simplify import is_elementwise, is_pure
from .source_entries import in_entries, is_small
from .source_loops import LOOPS
from .source_values import ARRAY, BOOL, BOOL_FORM, DOUBLE, ENTRIES, FLOAT_FORM, PYTHON, Value, identifier
from .stacked_calls import in_shares, is_shared

__all__ = ["Block", "as_scalar"]

#: dtypes beside which a Python float is not the float64 it stands for
_NARROW = frozenset({"float16", "float32", "complex64"})
#: loops deeper than this are calls: Python nests twenty blocks at most
_DEEPEST = 6
#: arrays of so many bytes and more are computed into memory that is free again
_REUSED = 1 << 15
#: operators whose result is memory of its own
_FRESH = frozenset({"sum", "prod", "max", "min", "concatenate", "stack", "cumsum", "astype", "sort", "solve", "inv",
                    "cholesky", "convolve", "scale"})  # fmt: skip
#: and those of which that is so for two arguments and more: of one they may show an argument
_CONTRACTIONS = frozenset({"einsum", "einsum_strong"})


class Block:
    """Lines at one indentation."""

    def __init__(self, writer: Any, indent: str, depth: int, outer: Block | None = None) -> None:
        self.writer, self.indent, self.depth = writer, indent, depth
        self.lines: list[str] = []
        #: text of an array -> name of the float with its value
        self.floats: dict[str, str] = dict(outer.floats) if outer else {}
        #: text of a small array -> names of the floats in it, and the other way round
        self.unpacked: dict[str, tuple[str, ...]] = dict(outer.unpacked) if outer else {}
        self.packed: dict[tuple, str] = dict(outer.packed) if outer else {}
        #: names of arrays that nothing else shares memory with
        self.alone: set[str] = set()
        #: (shape, dtype) -> names of arrays that nothing reads any more
        self.free: dict[tuple, list[str]] = {}

    def write(self, line: str) -> None:
        self.lines.append(self.indent + line)

    def inner(self) -> Block:
        return Block(self.writer, self.indent + "    ", self.depth + 1, self)

    def program(self, program: Program, inputs: Sequence[Value]) -> list[Value]:
        """Write a program's equations; return its results."""
        env: dict[Variable, Value] = dict(zip(program.inputs, inputs, strict=True))
        for (op, args, params, outs), dying in zip(
            program.steps, last_uses(program.steps, program.outputs), strict=True
        ):
            if isinstance(op, Equations):
                self.group(op, env)
                continue
            given = [env[a] if type(a) is Variable else self.constant(a) for a in args]
            dead = [env[v] for v in dying if v in env]
            if op.kind == "control":
                self.alone.difference_update([a.text for a in given])
            results = self.equation(op, given, params, outs, dead)
            env.update(zip(outs, results, strict=True))
            for v in dying:
                value = env.pop(v, None)
                if value is None:
                    continue
                if value.text in self.alone and value.aval.size * value.aval.dtype.itemsize >= _REUSED:
                    self.free.setdefault((value.aval.shape, value.aval.dtype.str), []).append(value.text)
                    self.alone.discard(value.text)
        return [env[o] if type(o) is Variable else self.constant(o) for o in program.outputs]

    def group(self, group: Equations, env: dict) -> None:
        """Write the call of equations that run together: block by block, or in machine code."""
        in_blocks = type(group) is Region
        (self.writer.regions if in_blocks else self.writer.groups).append(group)
        self.writer.calls["block" if in_blocks else "native"] += 1
        self.writer.warning = self.writer.warning or in_blocks
        as_they_are = () if in_blocks else (FLOAT_FORM, BOOL_FORM)
        reads = [env[v] if type(v) is Variable else self.constant(v) for v in group.reads]
        texts = [r.text if r.form in as_they_are else self.as_array(r) for r in reads]
        function = self.writer.bind("in_blocks" if in_blocks else "native", group.run)
        self.writer.entries[function] = lambda entry: entry(group)
        names = self.call(function, texts, len(group.writes))
        for v, text in zip(group.writes, names, strict=True):
            env[v] = Value(text, ARRAY, v.aval, text)
            if v.aval.shape:
                self.alone.add(text)

    def call(self, function: str, texts: Sequence[str], results: int, several: bool = True) -> list[str]:
        """Write a call; return the names of its results, of which there may be ``several``."""
        names = [self.writer.name() for _ in range(results)]
        targets = f"{', '.join(names)}{',' if several and results == 1 else ''} = " if names else ""
        self.write(f"{targets}{function}({', '.join(texts)})")
        return names

    # ── values ───────────────────────────────────────────────────────────────────────────────────────────────────

    def constant(self, x: Any) -> Value:
        aval = aval_of(x)
        if type(x) in (bool, int, float, complex):
            return Value(self._number(x), PYTHON, aval)
        return Value(self.writer.bind("k", x), ARRAY, strong_aval(aval))

    def _number(self, x: Any) -> str:
        if type(x) is float and not math.isfinite(x):
            return self.writer.bind("nan" if x != x else "inf" if x > 0 else "minus_inf", x)
        text = repr(x)
        return f"({text})" if text.startswith("-") or type(x) is complex else text

    def as_array(self, value: Value) -> str:
        """Return the text of what NumPy's operators would see."""
        if value.form == FLOAT_FORM:
            return f"float64({value.text})"
        if value.form == BOOL_FORM:
            return f"bool_({value.text})"
        if value.form == ENTRIES:
            key = (value.aval.shape, *value.entries)
            if key not in self.packed:
                self.packed[key] = self.new(_joined(value), ARRAY, value.aval).text
            return self.packed[key]
        return value.text

    def entries(self, value: Value) -> tuple[str, ...]:
        """Return the texts of a small array's entries, or of the one number that a value is."""
        if value.form == ENTRIES:
            return value.entries
        if not value.aval.shape:
            return (self.as_float(value),)
        known = self.unpacked.get(value.text)
        if known is None:
            thing = self.writer.names.get(value.text)
            if isinstance(thing, np.ndarray):
                return tuple([self._number(v) for v in thing.ravel().tolist()])
            known = self.unpacked[value.text] = tuple([self.writer.name() for _ in range(value.aval.size)])
            flat = value.text if len(value.aval.shape) == 1 else f"{value.text}.ravel()"
            self.write(f"{', '.join(known)}{',' if len(known) == 1 else ''} = {flat}.tolist()")
        return known

    def as_float(self, value: Value) -> str:
        """Return the text of a Python float (or, of a truth value, a bool)."""
        if value.form in (FLOAT_FORM, BOOL_FORM, PYTHON):
            return value.text
        known = self.floats.get(value.text)
        if known is None:
            thing = self.writer.names.get(value.text)
            if isinstance(thing, (np.generic, np.ndarray)):
                return self._number(bool(thing) if value.aval.dtype == BOOL else float(thing))
            known = self.floats[value.text] = self.writer.name()
            self.write(f"{known} = {'bool' if value.aval.dtype == BOOL else 'float'}({value.text})")
        return known

    def new(self, text: str, form: str, aval: Aval, fresh: str | bool = "") -> Value:
        name = self.writer.name()
        self.write(f"{name} = {text}")
        return Value(name, form, aval, name if fresh is True else fresh or "")

    def returned(self, value: Value, taken: set[str]) -> str:
        """Return the text of a result: memory of its own, which no other has ``taken``, numbers as NumPy's."""
        if value.form in (FLOAT_FORM, BOOL_FORM):
            return self.as_array(value)
        if value.form == PYTHON:
            return value.text
        if value.form == ENTRIES:  # a new array for each result
            return _joined(value)
        if not value.aval.shape:
            return f"{self.writer.bind('as_scalar', as_scalar)}({value.text})"
        if not value.fresh or value.fresh in taken:
            return f"{value.text}.copy()"
        taken.add(value.fresh)
        return value.text

    # ── equations ────────────────────────────────────────────────────────────────────────────────────────────────

    def equation(self, op: Any, args: list[Value], params: dict, outs: Sequence[Variable], dead: list) -> list[Value]:
        if (
            self.writer.numbers
            and len(outs) == 1
            and (value := self.number(op, args, params, outs[0].aval)) is not None
        ):
            self.writer.calls["number"] += 1
            return [value]
        if self.writer.numbers and (results := in_entries(self, op, args, params, outs)) is not None:
            self.writer.calls["number"] += 1
            return results
        if op.kind == "control" and self.depth < _DEEPEST and op.name in LOOPS:
            results = LOOPS[op.name](self, args, params, outs)
            if results is not None:
                self.writer.calls["loop"] += 1
                return results
        self.writer.warning = True
        args = [Value(self.as_array(a), ARRAY, a.aval) if a.form == ENTRIES else a for a in args]
        if is_elementwise(op) and not params and not op.multiple_results and op.name not in ("scale", "where"):
            self.writer.calls["ufunc"] += 1
            return [self.ufunc(op, args, outs[0].aval, dead)]
        simple = None if op.multiple_results else self.known(op, args, params, outs[0].aval)
        if simple is not None:
            self.writer.calls["library"] += 1
            return [simple]
        self.writer.calls["library" if is_pure(op, params) else "callback"] += 1
        texts = [self.as_array(a) for a in args]
        for a in args:
            self.alone.discard(a.text)
        shared = is_shared(op, [a.aval for a in args], [v.aval for v in outs])
        impl = in_shares(op.impl, [v.aval for v in outs]) if shared else op.impl
        call = self.writer.bind(identifier(op.name), impl)
        texts += [f"{k}={self.parameter(v)}" for k, v in params.items()]
        names = self.call(call, texts, len(outs), op.multiple_results)
        fresh = shared or op.name in _FRESH or (op.name in _CONTRACTIONS and len(args) > 1)
        return [Value(n, ARRAY, strong_aval(v.aval), n if fresh else "") for n, v in zip(names, outs, strict=True)]

    def parameter(self, x: Any) -> str:
        if x is None or type(x) in (bool, int, str):
            return repr(x)
        if type(x) is tuple and all([type(v) in (int, bool, str) or v is None for v in x]):
            return repr(x)
        return self.writer.bind("p", x)

    def number(self, op: Any, args: list[Value], params: dict, out: Aval) -> Value | None:
        """Write an equation between single numbers in Python, if it can be."""
        if out.shape or is_weak(out):
            return None
        name = op.name
        if name == "index" and len(args) == 1:
            return None if is_small(args[0].aval) else self.entry(args[0], params["template"], out)
        if (params and name != "scale") or any([a.aval.shape for a in args]):
            return None
        kinds = [a.aval.dtype for a in args]
        numbers = all([a.aval.dtype == DOUBLE or a.whole for a in args])
        expression, form = None, FLOAT_FORM
        if out.dtype == DOUBLE:
            if name == "where" and kinds == [BOOL, DOUBLE, DOUBLE]:
                c, x, y = [self.as_float(a) for a in args]
                return self.new(f"{x} if {c} else {y}", FLOAT_FORM, out)
            if not numbers:
                return None
            if name == "scale":
                return self.strong_product(args, out)
            if name in ("maximum", "minimum"):
                x, y = [self.floating(a) for a in args]
                sign = ">" if name == "maximum" else "<"
                # equal zeros of different signs, and NaN, are NumPy's to choose between
                exact = f"{x} if {x} {sign} {y} else {y} if {y} {sign} {x} else {{}}"
                call = f"float({self.writer.bind(name, op.impl)}({x}, {y}))"
                return self.new(exact.format(call), FLOAT_FORM, out)
            expression = FLOAT.get(name)
        elif out.dtype == BOOL:
            table = LOGICAL if all([k == BOOL for k in kinds]) else BOOLEAN if numbers and DOUBLE in kinds else {}
            expression, form = table.get(name), BOOL_FORM
        if expression is None:
            return None
        texts = [self.floating(a) for a in args]
        for word in MATHEMATICS:
            if f"{word}(" in expression:
                self.writer.names[word] = MATHEMATICS[word]
                self.writer.raising = True
        self.writer.raising = self.writer.raising or "/" in expression
        if name == "multiply" and "1.0" in texts:
            return Value(texts[1 - texts.index("1.0")], form, out)
        return self.new(expression.format(*texts), form, out)

    def floating(self, a: Value) -> str:
        """Return the text of an argument as a float: NumPy takes the ``0`` of ``maximum(x, 0)`` for one."""
        return f"{a.text}.0".replace(").0", ".0)") if a.whole else self.as_float(a)

    def can_be_number(self, op: Any, args: list[Value], params: dict, out: Aval) -> bool:
        """Say whether ``number`` knows an equation, without writing it."""
        lines, names = len(self.lines), self.writer._names
        value = self.number(op, args, params, out)
        del self.lines[lines:]
        self.writer._names = names
        return value is not None

    def strong_product(self, args: list[Value], out: Aval) -> Value:
        t, d = [self.floating(a) for a in args]
        if t == "1.0":
            return Value(d, FLOAT_FORM, out)
        value = self.new(f"{t} * {d}", FLOAT_FORM, out)
        self.write(f"if {value.text} != {value.text} and {t} == 0.0: {value.text} = 0.0  # a strong zero")
        return value

    def entry(self, x: Value, template: tuple, out: Aval) -> Value | None:
        if out.dtype != DOUBLE or not template or not all([type(e) is int for e in template]):
            return None
        if len(template) != len(x.aval.shape):
            return None
        thing = self.writer.names.get(x.text)
        if isinstance(thing, np.ndarray):
            return Value(self._number(float(thing[template])), FLOAT_FORM, out)
        return self.new(f"{x.text}.item({', '.join(map(str, template))})", FLOAT_FORM, out)

    def operands(self, args: list[Value]) -> list[str]:
        """Return the texts of an elementwise operator's arguments; a float stays one where that changes nothing."""
        narrow = any([a.form == ARRAY and a.aval.dtype.name in _NARROW for a in args])
        arrays = any([a.form == ARRAY for a in args])
        return [a.text if arrays and not narrow and a.form == FLOAT_FORM else self.as_array(a) for a in args]

    def ufunc(self, op: Any, args: list[Value], out: Aval, dead: list[Value]) -> Value:
        texts, target = self.operands(args), self.target(out, dead)
        if target is None and op.name in SIGNS and out.shape:
            text = f"{texts[0]} {SIGNS[op.name]} {texts[1]}"
        elif target is None and op.name == "negative" and out.shape:
            text = f"-{texts[0]}"
        else:
            texts += [] if target is None else [target]
            text = f"{self.writer.bind(identifier(op.name), op.impl)}({', '.join(texts)})"
        value = self.new(text, ARRAY, strong_aval(out), bool(out.shape))
        if out.shape:
            self.alone.add(value.text)
        return value

    def target(self, out: Aval, dead: list[Value]) -> str | None:
        """Return the name of an array of the result's kind that nothing reads after this equation."""
        if out.size * out.dtype.itemsize < _REUSED:
            return None
        for value in dead:
            if value.text in self.alone and value.aval == out and value.form == ARRAY:
                self.alone.discard(value.text)
                return value.text
        known = self.free.get((out.shape, out.dtype.str))
        return known.pop() if known else None

    def known(self, op: Any, args: list[Value], params: dict, out: Aval) -> Value | None:
        """Write the commonest operators that are no ufuncs without the detour through their ``impl``."""
        name, texts = op.name, [self.as_array(a) for a in args]
        bind = self.writer.bind
        x = args[0] if args else None
        if name == "scale":
            if any([a.form == PYTHON for a in args]):
                return None
            return self.new(f"{bind('strong_product', strong_product)}({', '.join(texts)})", ARRAY, out, True)
        if name == "where" and out.shape:
            return self.new(f"{bind('where', np.where)}({', '.join(texts)})", ARRAY, out, True)
        if name == "matmul" and all([a.aval.shape for a in args]):
            return self.new(f"{texts[0]} @ {texts[1]}", ARRAY, out, bool(out.shape))
        if name == "stack" and not any([a.aval.shape for a in args]) and len(args) < 200 and out.dtype == DOUBLE:
            if all([a.aval.dtype == DOUBLE for a in args]):
                return self.new(f"array([{', '.join([a.text for a in args])}])", ARRAY, out, True)
        if name == "concatenate":
            joined = ", ".join(texts) + ("," if len(texts) == 1 else "")
            return self.new(f"{bind('concatenate', np.concatenate)}(({joined}), {params['axis']})", ARRAY, out, True)
        if x is None or x.form != ARRAY or not x.aval.shape or x.text in self.writer.names:
            return None
        if name in ("sum", "prod") and set(params) <= {"axis", "keepdims"} and params["axis"]:
            function = (np.add if name == "sum" else np.multiply).reduce
            axis = params["axis"]
            axis = axis[0] if len(axis) == 1 else None if len(axis) == len(x.aval.shape) else axis
            keep = params.get("keepdims", False)
            call = bind(f"{name}_of", function)
            return self.new(f"{call}({texts[0]}, {axis}{', None, None, True' if keep else ''})", ARRAY, out, True)
        if name == "astype":
            return self.new(f"{texts[0]}.astype({self.parameter(np.dtype(params['dtype']))})", ARRAY, out, True)
        self.alone.discard(x.text)
        if name == "reshape":
            return self.new(f"{texts[0]}.reshape({params['shape']!r})", ARRAY, out, x.fresh)
        if name == "transpose":
            return self.new(f"{texts[0]}.transpose({params['axes']!r})", ARRAY, out, x.fresh)
        if name == "index" and len(args) == 1:
            index = self.parameter(_native(params["template"], ()))
            if len(params["template"]) == 1 and type(params["template"][0]) is int:
                index = str(params["template"][0])
            return self.new(f"{texts[0]}[{index}]", ARRAY, out, False)
        return None


def as_scalar(x: Any) -> Any:
    """Return a result without axes as NumPy's scalar; computed from Python numbers alone it may be one of them."""
    return np.asarray(x)[()]


def _joined(value: Value) -> str:
    """Return the text of an array of entries."""
    shape = value.aval.shape
    return f"array([{', '.join(value.entries)}])" + (f".reshape({shape!r})" if len(shape) > 1 else "")
