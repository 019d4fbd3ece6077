"""State that changes between calls: whatever a function reads besides its arguments, and every way to change it.

A program is a structure of containers, objects, classes, modules, closures and arrays, nested at random, a function
that reads some of it, and statements that change it. After each statement the compiled function (its gradient, or a
sparse Jacobian whose pattern depends on what is read) is compared with the function itself, called with plain arrays.
For: guards that are missing. Not for: programs of NumPy calls, or control flow.
"""

from __future__ import annotations

import sys
import types
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

import dualad as da

from .cases import Case, Difference
from .compare import settings

__all__ = ["case"]

_HEAD = """\
import collections, contextvars, dataclasses, enum, functools, operator, threading, types, weakref
import numpy as np
import dualad as da
"""


class _Node(NamedTuple):
    """A part of the structure: the variable that holds it, expressions that read a number of it, and changes of it."""

    name: str
    reads: list[Callable[[str], str]]
    changes: list[str]


class _Writer:
    """The lines that make a structure."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.lines: list[str] = []
        self.count = 0

    def pick(self, things: Sequence) -> Any:
        return things[int(self.rng.integers(len(things)))]

    def number(self) -> str:
        return self.pick(["0.5", "2.0", "3", "-1.5", "0.0", "-0.0", "True", "np.float64(1.25)", "7"])

    def name(self, letter: str = "v") -> str:
        self.count += 1
        return f"{letter}{self.count}"

    def made(self, text: str, letter: str = "v") -> str:
        name = self.name(letter)
        self.lines.append(f"{name} = {text}")
        return name

    def node(self, depth: int) -> _Node:
        inner = [self.dict_, self.list_, self.tuple_, self.object_, self.object_, self.space, self.mapping, self.held]
        leaves = [self.array, self.plain, self.numbers, self.set_, self.object_leaf, self.function]
        if depth > 0 and self.rng.random() < 0.8:
            return self.pick(inner)(depth - 1)
        return self.pick(leaves)()

    # ── leaves ───────────────────────────────────────────────────────────────────────────────────────────────────

    def plain(self) -> _Node:
        name = self.made(f"[{self.number()}]")
        reads = [lambda a: f"{a}[0]", lambda a: f"sum({a})", lambda a: f"{a}[-1]", lambda a: f"({a} or [4.0])[0]"]
        changes = [f"{name}[0] = {self.number()}", f"{name}.append({self.number()})", f"{name}.insert(0, 2.5)"]
        return _Node(name, reads, [*changes, f"{name}.clear()", f"{name} += [1.5, 0.5]"])

    def numbers(self) -> _Node:
        size = self.pick([3, 40, 2500])
        name = self.made(f"[float(i % 5) for i in range({size})]")
        at = int(self.rng.integers(size))
        reads = [
            lambda a: f"{a}[{at}]", lambda a: f"max({a})", lambda a: f"len({a})",
            lambda a: f"float(np.mean({a}))", lambda a: f"sorted({a})[0]", lambda a: f"sum([v * 0.1 for v in {a}])",
        ]  # fmt: skip
        changes = [f"{name}[{at}] = {self.number()}", f"{name}.reverse()", f"{name}[:] = {name}[::-1]", f"{name}.pop()"]
        return _Node(name, reads, [*changes, f"{name}.sort()", f"{name}[{at}:{at}] = [9.0]"])

    def set_(self) -> _Node:
        name = self.made(self.pick(["{1.0, 2.0}", "collections.deque([1.0, 2.0])", "bytearray(b'ab')"]))
        change = f"{name}.add(5.0)" if "{" in self.lines[-1] else f"{name}.append(7)"
        reads = [lambda a: f"sum({a})", lambda a: f"len({a})", lambda a: f"float(5.0 in {a})", lambda a: f"max({a})"]
        return _Node(name, reads, [change, f"{name}.clear()", f"{name}.pop()"])

    def array(self) -> _Node:
        kind = self.pick(["float", "int", "float", "object", "float32"])
        size = self.pick([3, 3, 9000, 70_000]) if kind in ("float", "int") else 3
        name = self.made(f"(np.arange({size}) % 3 + 1).astype({kind!r})")
        reads = [
            lambda a: f"float({a}[1])", lambda a: f"{a}[:3].sum()", lambda a: f"(2.0 if {a}[0] > 1 else 0.5)",
            lambda a: f"{a}.shape[0]", lambda a: f"{a}.ravel().tolist()[2]", lambda a: f"len({a})",
            lambda a: f"np.sum(np.multiply(x[0], {a}))", lambda a: f"{a}.ravel()[:3]", lambda a: f"{a}.dtype.itemsize",
            lambda a: f"x[int({a}.ravel()[1]) % 3]", lambda a: f"{a}.item(0)", lambda a: f"{a}.ndim",
        ]  # fmt: skip
        changes = [
            f"{name}[0] = 2", f"{name}[1] = 5", f"{name}[...] = 3", f"{name}.shape = ({name}.size, 1)",
            f"{name} *= 2", f"{name}.sort(axis=0)", f"{name}[0], {name}[1] = 7, 8", f"np.negative({name}, out={name})",
        ]  # fmt: skip
        if kind == "float":
            changes += [f"{name}.dtype = np.int64", f"{name}.view()[2] = 9.0", f"{name}.flat[1] = 0.25"]
        return _Node(name, reads, changes)

    def object_leaf(self) -> _Node:
        """A value in one of the places in which objects and classes have them."""
        cls, name = self.name("C"), self.name()
        style = self.pick(
            ["class", "slots", "property", "getattr", "descriptor", "base", "dataclass", "method", "late"]
        )
        k, other = self.number(), self.number()
        body = {
            "class": [f"class {cls}:", f"    k = {k}"],
            "slots": [f"class {cls}:", "    __slots__ = ('k',)", f"    def __init__(self): self.k = {k}"],
            "property": [
                f"class {cls}:", f"    _k = {k}", "    @property", "    def k(self): return self._k * 2.0",
            ],
            "getattr": [
                f"class {cls}:", f"    def __init__(self): self.table = {{'k': {k}}}",
                "    def __getattr__(self, name):", "        if name == 'table' or name not in self.table:",
                "            raise AttributeError(name)", "        return self.table[name]",
            ],
            "descriptor": [
                "class _D:", "    def __get__(self, o, t): return o.__dict__.get('z', 1.5)", f"class {cls}:",
                "    k = _D()",
            ],
            "base": ["class _B:", f"    k = {k}", f"class {cls}(_B):", "    pass"],
            "dataclass": ["@dataclasses.dataclass", f"class {cls}:", f"    k: float = {k}"],
            "method": [
                f"class {cls}:", f"    def get(self): return {k}",
                "    @property", "    def k(self): return self.get()",
            ],
            "late": [f"class {cls}:", "    pass"],
        }[style]  # fmt: skip
        self.lines += [*body, f"{name} = {cls}()"]
        reads = [
            lambda a: f"getattr({a}, 'k', 1.0)", lambda a: f"(2.0 if hasattr({a}, 'k') else 0.5)",
            lambda a: f"getattr({a}, 'q', 1.0)", lambda a: f"tried(lambda: {a}.k)", lambda a: f"tried(lambda: {a}.q)",
        ]  # fmt: skip
        if style != "late":
            reads += [lambda a: f"{a}.k"] * 4 + [lambda a: f"operator.attrgetter('k')({a})"]
        if style != "slots":
            reads += [lambda a: f"vars({a}).get('k', 0.5)", lambda a: f"len({a}.__dict__)"]
        changes = [
            f"{name}.k = {other}", f"{cls}.k = {other}", f"del {name}.k", f"{name}.q = {other}", f"{cls}.q = {other}",
            f"{cls}.k = property(lambda self: {other})", f"{name}.__dict__['k'] = {other}",
            f"{name}.__dict__ = {{'k': {other}, '_k': 0.5}}", f"{cls}.__getattr__ = lambda self, name: {other}",
            f"{name}._k = {other}", f"{name}.z = {other}", f"{name}.table = {{'k': {other}, 'q': 1.0}}",
            f"{name}.get = lambda: {other}", f"{cls}.get = lambda self: {other}", f"del {cls}.k",
            f"{name}.__class__ = type('Other', (), {{'k': {other}}})",
        ]  # fmt: skip
        return _Node(name, reads, changes)

    def function(self) -> _Node:
        name, style = self.name(), self.pick(["default", "cell", "cached", "kw", "attribute"])
        k, other = self.number(), self.number()
        body = {
            "default": [f"def {name}(k=[{k}]): return k[0]"],
            "kw": [f"def {name}(*, k={k}): return k"],
            "cell": [
                f"def make_{name}():", f"    k = {k}", "    def set(v):", "        nonlocal k", "        k = v",
                "    def get(): return k", "    get.set = set", "    return get", f"{name} = make_{name}()",
            ],
            "cached": [
                "@functools.lru_cache", f"def held_{name}(): return {{'k': {k}}}",
                f"{name} = lambda: held_{name}()['k']",
            ],
            "attribute": [f"def {name}(): return {name}.k", f"{name}.k = {k}"],
        }[style]  # fmt: skip
        self.lines += body
        changes = [f"{name}.__code__ = (lambda: {other}).__code__", f"{name}.k = {other}"] + {
            "default": [f"{name}.__defaults__ = ([{other}],)", f"{name}.__defaults__[0][0] = {other}"],
            "kw": [f"{name}.__kwdefaults__['k'] = {other}", f"{name}.__kwdefaults__ = {{'k': {other}}}"],
            "cell": [f"{name}.set({other})", f"{name}.__closure__[0].cell_contents = {other}"],
            "cached": [f"held_{name}()['k'] = {other}", f"held_{name} = lambda: {{'k': {other}}}"],
            "attribute": [f"del {name}.k"],
        }[style]  # fmt: skip
        return _Node(name, [lambda a: f"{a}()"], changes)

    # ── what holds something ─────────────────────────────────────────────────────────────────────────────────────

    def _through(self, inner: _Node, ways: Sequence[Callable[[str], str]]) -> list[Callable[[str], str]]:
        way = self.pick(ways)
        return [lambda a, r=r: r(way(a)) for r in inner.reads]

    def dict_(self, depth: int) -> _Node:
        inner, other, k = self.node(depth), self.node(0), self.number()
        name = self.made(f"{{'a': {inner.name}, 'b': {other.name}, 'n': {k}}}")
        ways = [lambda a: f"{a}['a']", lambda a: f"{a}.get('a')", lambda a: f"list({a}.values())[0]"]
        reads = [
            *self._through(inner, ways), lambda a: f"{a}['n']", lambda a: f"{a}.get('late', 0.5)",
            lambda a: f"float('late' in {a})", lambda a: f"len({a})", lambda a: f"float(list({a}).index('n'))",
        ]  # fmt: skip
        changes = [
            f"{name}['n'] = {self.number()}", f"{name}['late'] = 3.0", f"{name}['a'] = {name}.pop('a')",
            f"{name}['a'], {name}['b'] = {name}['b'], {name}['a']", f"{name}.pop('n')", f"{name}.update(late=1.0)",
        ]  # fmt: skip
        return _Node(name, reads, [*changes, *inner.changes])

    def list_(self, depth: int) -> _Node:
        inner, other = self.node(depth), self.node(0)
        name = self.made(f"[{other.name}, {inner.name}]")
        reads = [*self._through(inner, [lambda a: f"{a}[1]", lambda a: f"{a}[-1]"]), lambda a: f"len({a})"]
        changes = [f"{name}.reverse()", f"{name}[1] = {name}[0]", f"{name}.append({name}[0])", f"{name}.pop()"]
        return _Node(name, reads, [*changes, *inner.changes, *inner.changes])

    def tuple_(self, depth: int) -> _Node:
        inner = self.node(depth)
        if self.rng.random() < 0.5:
            name = self.made(f"(1.0, {inner.name})")
            return _Node(name, self._through(inner, [lambda a: f"{a}[1]"]), inner.changes)
        name = self.made(f"collections.namedtuple('T', 'a b')({inner.name}, 2.0)")
        return _Node(name, self._through(inner, [lambda a: f"{a}.a", lambda a: f"{a}[0]"]), inner.changes)

    def object_(self, depth: int) -> _Node:
        inner, other, cls, name = self.node(depth), self.node(0), self.name("C"), self.name()
        where = self.pick(["instance", "class", "property", "call", "method", "super"])
        body = {
            "instance": [f"class {cls}:", f"    def __init__(self): self.part = {inner.name}"],
            "class": [f"class {cls}:", f"    part = {inner.name}"],
            "property": [
                f"class {cls}:", f"    def __init__(self): self.held = [{inner.name}]", "    @property",
                "    def part(self): return self.held[0]",
            ],
            "call": [f"class {cls}:", f"    part = {inner.name}", "    def __call__(self): return self.part"],
            "method": [f"class {cls}:", f"    part = {inner.name}", "    def get(self): return self.part"],
            "super": [f"class _B{cls}:", f"    part = {inner.name}", f"class {cls}(_B{cls}):", "    pass"],
        }[where]  # fmt: skip
        self.lines += [*body, f"{name} = {cls}()"]
        ways = {"call": [lambda a: f"{a}()"], "method": [lambda a: f"{a}.get()"]}.get(
            where, [lambda a: f"{a}.part", lambda a: f"getattr({a}, 'part')", lambda a: f"getattr({a}, 'pa' + 'rt')"]
        )
        changes = [
            f"{name}.part = {other.name}", f"{cls}.part = {other.name}", f"del {name}.part",
            f"{name}.held[0] = {other.name}", f"{cls}.get = lambda self: {other.name}",
            f"{name}.get = lambda: {other.name}", f"{cls}.__call__ = lambda self: {other.name}",
        ]  # fmt: skip
        return _Node(name, self._through(inner, ways), [*changes, *inner.changes, *inner.changes])

    def space(self, depth: int) -> _Node:
        inner, other = self.node(depth), self.node(0)
        make = self.pick(["types.SimpleNamespace()", "types.ModuleType('a_module')", "threading.local()"])
        name = self.made(make)
        self.lines.append(f"{name}.part = {inner.name}")
        changes = [f"{name}.part = {other.name}", f"del {name}.part", f"{name}.late = 3.0"]
        reads = [*self._through(inner, [lambda a: f"{a}.part"]), lambda a: f"getattr({a}, 'late', 0.5)"]
        return _Node(name, reads, [*changes, *inner.changes, *inner.changes])

    def mapping(self, depth: int) -> _Node:
        inner, other = self.node(depth), self.node(0)
        make = self.pick(
            ["collections.OrderedDict(", "collections.defaultdict(list, ", "collections.UserDict(",
             "types.MappingProxyType(", "collections.ChainMap(", "type('Own', (dict,), {})("]
        )  # fmt: skip
        name = self.made(f"{make}dict(a={inner.name}, n=1.5))")
        ways = [lambda a: f"{a}['a']", lambda a: f"{a}.get('a')"]
        reads = [
            *self._through(inner, ways), lambda a: f"{a}.get('late', 0.5)", lambda a: f"list({a}.keys()).index('n')",
        ]  # fmt: skip
        changes = [
            f"{name}['n'] = 4.0", f"{name}['late'] = 3.0", f"{name}['a'] = {other.name}",
            f"{name}['a'] = {name}.pop('a')", f"{name}.move_to_end('a')", f"{name}.maps.insert(0, {{'late': 2.0}})",
        ]  # fmt: skip
        return _Node(name, reads, [*changes, *inner.changes, *inner.changes])

    def held(self, depth: int) -> _Node:
        """Something that a reference, a variable, a partial or an iterable of Python's holds."""
        inner, other = self.node(depth), self.node(0)
        style = self.pick(["weak", "variable", "partial", "enum", "view", "method"])
        name = self.name()
        box = f"box_{name}"
        self.lines += {
            "weak": [f"class {box}:", f"    part = {inner.name}", f"{name} = weakref.ref({box})"],
            "variable": [f"{name} = contextvars.ContextVar('{name}')", f"{name}.set({inner.name})"],
            "partial": [f"{name} = functools.partial(lambda part: part, part={inner.name})"],
            "enum": [f"{name} = enum.Enum('{name}', {{'RED': {inner.name}}})"],
            "view": [f"{box} = {{'a': {inner.name}}}", f"{name} = {box}.values()"],
            "method": [f"{box} = [{inner.name}]", f"{name} = {box}.__getitem__"],
        }[style]  # fmt: skip
        way = {
            "weak": lambda a: f"{a}().part", "variable": lambda a: f"{a}.get()", "partial": lambda a: f"{a}()",
            "enum": lambda a: f"{a}.RED.value", "view": lambda a: f"list({a})[0]", "method": lambda a: f"{a}(0)",
        }[style]  # fmt: skip
        changes = {
            "weak": [f"{box}.part = {other.name}"], "variable": [f"{name}.set({other.name})"],
            "partial": [f"{name}.keywords['part'] = {other.name}"], "enum": [f"{name}.RED._value_ = {other.name}"],
            "view": [f"{box}['a'] = {other.name}"], "method": [f"{box}[0] = {other.name}"],
        }[style]  # fmt: skip
        return _Node(name, self._through(inner, [way]), [*changes, *inner.changes, *inner.changes])


def _rooted(w: _Writer, nodes: list[_Node]) -> tuple[list[str], list[str]]:
    """Return how the function gets at the structures, and the lines around its definition, ending with its head."""
    how = w.pick(["global", "cell", "default", "by name", "attribute", "object", "helper", "module"])
    names = [n.name for n in nodes]
    given = ", ".join([f"{n}={n}" for n in names])
    if how == "default":
        return names, [f"def f(x, {given}):"]
    if how == "by name":
        return [f"globals()['{n}']" for n in names], ["def f(x):"]
    if how == "attribute":
        return [f"f.{n}" for n in names], ["def f(x):"]
    if how == "object":
        return [f"self.{n}" for n in names], ["class Model:", "    def __init__(self): pass", "    def f(self, x):"]
    if how == "module":
        return [f"MODULE.{n}" for n in names], ["MODULE = types.ModuleType('another_module')", "def f(x):"]
    if how == "helper":
        return [f"get_{n}()" for n in names], [f"def get_{n}(): return {n}" for n in names] + ["def f(x):"]
    if how == "cell":
        return names, [f"def make({', '.join(names)}):", "    def f(x):"]
    return names, ["def f(x):"]


def _text(parts: dict) -> str:
    body = [f"    y = y + np.sin(x + {i}) * ({read})" for i, read in enumerate(parts["reads"])]
    around, after, names = list(parts["head"]), [], parts["names"]
    indent = len(around[-1]) - len(around[-1].lstrip())
    lines = [" " * indent + line for line in ["    y = x * 1.5", *body, "    return y"]]
    if around[0].startswith("def make"):
        after = ["    return f", f"f = make({', '.join(names)})"]
    elif around[0].startswith("class Model"):
        after = ["model = Model()", *[f"model.{n} = {n}" for n in names], "f = model.f"]
    elif around[0].startswith("MODULE"):
        after = [f"MODULE.{n} = {n}" for n in names]
    elif any([r"f." + n in "".join(body) for n in names]):
        after = [f"f.{n} = {n}" for n in names]
    caught = "    except (AttributeError, LookupError, NameError): return 0.75"
    tried = ["def tried(get):", "    try: return get()", caught]
    changes = [f"# then: {line}" for line in parts["changes"]]
    return "\n".join([_HEAD, *tried, *parts["lines"], *around, *lines, *after, *changes, ""])


def case(seed: int) -> Case:
    """Return a program whose state changes."""
    w = _Writer(seed)
    nodes = [w.node(int(w.rng.integers(5))) for _ in range(int(w.rng.integers(1, 4)))]
    roots, head = _rooted(w, nodes)
    reads = [w.pick(n.reads)(root) for n, root in zip(nodes, roots, strict=True) for _ in range(2)]
    every = [c for n in nodes for c in n.changes]
    changes = [w.pick(every) for _ in range(int(w.rng.integers(2, 7)))]
    parts = {"lines": w.lines, "head": head, "names": [n.name for n in nodes], "reads": reads, "changes": changes}
    return _made(seed, parts)


def _made(seed: int, parts: dict) -> Case:
    def smaller() -> Iterator[Case]:
        for key in ("changes", "reads"):
            for i in range(len(parts[key])):
                yield _made(seed, {**parts, key: parts[key][:i] + parts[key][i + 1 :]})

    return Case(f"state {seed}", _text(parts), lambda: _check(seed, _text(parts)), smaller)


def _check(seed: int, text: str) -> None:
    module = types.ModuleType(f"a_state_{seed}")
    sys.modules[module.__name__] = module
    try:
        with warnings.catch_warnings(), settings(native=seed % 3 == 0):
            warnings.simplefilter("ignore")
            exec(compile(text, f"<state {seed}>", "exec"), vars(module))
            f = module.f
            asked = _asked(seed, f)
            for change in ["", "", *[line[8:] for line in text.splitlines() if line.startswith("# then: ")]]:
                try:
                    exec(change, vars(module))
                except Exception:  # a change that this structure does not allow
                    continue
                for _ in range(2):
                    for name, (compiled, plain) in asked.items():
                        _compare(_result(compiled), _result(plain), f"{name} after {change!r}")
    finally:
        del sys.modules[module.__name__]


def _asked(seed: int, f: Callable) -> dict[str, tuple[Callable, Callable]]:
    x = np.array([0.5, 1.25, 2.0])
    total = lambda x: np.sum(f(x))
    fast, gradient = da.jit(f), da.jit(da.grad(total))
    asked = {"jit": (lambda: fast(x), lambda: f(x)), "grad": (lambda: gradient(x), lambda: da.grad(total)(x))}
    if seed % 4 == 0:
        rolled = lambda x: x * np.roll(x, int(np.sum(f(np.ones(3))) * 4) % 3)
        sparse = da.sparse_jacobian(rolled)
        asked["sparse"] = (lambda: sparse(x).toarray(), lambda: da.jacfwd(rolled)(x))
    return asked


def _result(f: Callable) -> Any:
    try:
        with np.errstate(all="ignore"):
            return np.asarray(f()).astype(float)  # of an array of objects it is one of objects
    except Exception as error:
        return error


def _compare(found: Any, expected: Any, what: str) -> None:
    if isinstance(expected, Exception) or isinstance(found, Exception):
        if isinstance(expected, Exception) != isinstance(found, Exception):
            raise Difference(f"{what}: {found!r} in place of {expected!r}")
    elif found.shape != expected.shape or not np.allclose(found, expected, rtol=1e-9, atol=1e-9, equal_nan=True):
        raise Difference(f"{what}: {found} in place of {expected}")
