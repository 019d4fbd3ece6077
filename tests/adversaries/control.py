"""Random nests of ``scan``, ``while_loop``, ``fori_loop``, ``cond``, ``switch``, ``map`` and ``associative_scan``.

Carries are tuples, dicts and numbers of different dtypes, Python numbers among them; bodies read values from outside,
index by the counter, write in place; loops have no step, one, or some, forwards and backwards. For: the operators of
``dualad/control`` compiled, in every derivative. Not for: loops that Python unrolls (``inplace.py``).
"""

from __future__ import annotations

import numpy as np

from .cases import Case
from .compare import source_case

__all__ = ["case"]

_UNARY = ("np.sin({})", "np.tanh({})", "({} * 0.5)", "np.exp(-np.abs({}))", "np.cos({})", "np.abs({})")
_BINARY = (
    "({} + {})",
    "({} - {})",
    "({} * {})",
    "np.minimum({}, {})",
    "np.maximum({}, {})",
    "np.where({} > 0.2, {}, 0.5)",
)


class _Writer:
    """Writes one program; what is in scope is known by shape ("s": a number, "v": n of them) and dtype."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng([22, seed])
        self.n = int(self.choice([1, 2, 3, 5, 8]))
        self.lines: list[str] = []
        self.depth = 1
        self.names = 0
        self.dtypes = self.choice([("float64",), ("float64",), ("float32",), ("float32", "float64")])

    def choice(self, items):
        return items[int(self.rng.integers(len(items)))]

    def chance(self, p: float) -> bool:
        return bool(self.rng.random() < p)

    def name(self, stem: str) -> str:
        self.names += 1
        return f"{stem}{self.names}"

    def emit(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    # ── expressions ──────────────────────────────────────────────────────────────────────────────────────────────

    def leaf(self, scope: dict, shape: str, dtype: str) -> str:
        """Return a value of a shape and dtype, or a Python number, which takes any."""
        same = [v for v, (s, d) in scope.items() if s == shape and d in (dtype, "weak")]
        if shape == "v" and not same:
            same = [
                f"{v} * np.ones({self.n}, dtype=np.{dtype})" for v, (s, d) in scope.items() if (s, d) == ("s", dtype)
            ]
            return self.choice(same) if same else f"np.full({self.n}, 0.3, dtype=np.{dtype})"
        vectors = [v for v, (s, d) in scope.items() if (s, d) == ("v", dtype)]
        if shape == "s" and vectors and self.chance(0.4):
            v, i = self.choice(vectors), int(self.rng.integers(self.n))
            counters = [c for c, (_, d) in scope.items() if d == "index"]
            if counters and self.chance(0.6):
                return f"{v}[{self.choice(counters)} % {self.n}]"
            return self.choice([f"{v}[{i}]", f"np.sum({v}) * 0.2", f"np.max({v})", f"{v}[-1]"])
        if same and self.chance(0.85):
            return self.choice(same)
        return self.choice(["0.3", "1.5", "-0.7"]) if shape == "s" else self.choice(same)

    def term(self, scope: dict, shape: str, dtype: str, depth: int = 0) -> str:
        if depth > 1 or self.chance(0.3):
            return self.leaf(scope, shape, dtype)
        if self.chance(0.55):
            other = "s" if shape == "v" and self.chance(0.4) else shape
            a, b = self.term(scope, shape, dtype, depth + 1), self.term(scope, other, dtype, depth + 1)
            return self.choice(_BINARY).format(*[a, b] if self.chance(0.5) else [b, a])
        return self.choice(_UNARY).format(self.term(scope, shape, dtype, depth + 1))

    def bounded(self, scope: dict, shape: str, dtype: str) -> str:
        """Return a term that is surely an array of its dtype and stays moderate, however often it goes round."""
        text = f"np.tanh({self.term(scope, shape, dtype)})"
        if len(self.dtypes) > 1 or dtype != "float64":  # sines of Python numbers are float64
            text = f"{text}.astype(np.{dtype})"
        same = [v for v, (s, d) in scope.items() if (s, d) == (shape, dtype)]
        return f"{text} + {self.choice(same) if same and self.chance(0.9) else self.leaf(scope, shape, dtype)} * 0.0"

    # ── what a loop carries ──────────────────────────────────────────────────────────────────────────────────────

    def carried(self, scope: dict) -> list[tuple[str, str, str, str]]:
        """Return (name, shape, dtype, first value) of each part of a carry."""
        parts = []
        for _ in range(int(self.rng.integers(1, 4))):
            shape, dtype = self.choice("ssv"), self.choice(self.dtypes)
            first = self.bounded(scope, shape, dtype) if self.chance(0.75) else None
            if first is None:  # a constant; a Python number takes the dtype that the first step gives it
                first = (
                    f"np.zeros({self.n}, dtype=np.{dtype})"
                    if shape == "v"
                    else self.choice(["0.0", "1.0", f"np.{dtype}(0.5)"])
                )
            parts.append((self.name("c"), shape, dtype, first))
        return parts

    def packed(self, parts: list[str], keys: list[str], way: str) -> str:
        if way == "one" and len(parts) == 1:
            return parts[0]
        if way == "dict":
            return "{" + ", ".join([f"'{k}': {p}" for k, p in zip(keys, parts, strict=True)]) + "}"
        return f"({', '.join(parts)}{',' if len(parts) == 1 else ''})"

    def unpack(self, keys: list[str], way: str, name: str) -> None:
        if way == "dict":
            self.emit(f"{', '.join(keys)} = {', '.join([f'{name}[{k!r}]' for k in keys])}")
        elif way == "one" and len(keys) == 1:
            self.emit(f"{keys[0]} = {name}")
        else:
            self.emit(f"{', '.join(keys)}{',' if len(keys) == 1 else ''} = {name}")

    # ── statements ───────────────────────────────────────────────────────────────────────────────────────────────

    def statement(self, scope: dict, nesting: int) -> None:
        kinds = [self.scan, self.fori, self.while_, self.cond, self.switch, self.map, self.prefix]
        if nesting > 1 or (nesting and self.chance(0.5)):
            return self.plain(scope)
        return self.choice(kinds)(scope, nesting)

    def plain(self, scope: dict) -> None:
        shape, dtype = self.choice("sv"), self.choice(self.dtypes)
        name = self.name("u")
        self.emit(f"{name} = {self.bounded(scope, shape, dtype)}")
        if shape == "v" and self.chance(0.4):
            counters = [c for c, (_, d) in scope.items() if d == "index"]
            place = (
                f"{self.choice(counters)} % {self.n}"
                if counters and self.chance(0.7)
                else str(int(self.rng.integers(self.n)))
            )
            if any((s, d) == ("v", dtype) for s, d in scope.values()):
                self.emit(f"{name} = {name} * 1.0")
                self.emit(f"{name}[{place}] {self.choice(['=', '+=', '*='])} {self.term(scope, 's', dtype)}")
        scope[name] = shape, dtype

    def body(self, scope: dict, parts: list, nesting: int) -> list[str]:
        """Write what a body computes and return the new carry."""
        for _ in range(int(self.rng.integers(0, 3))):
            self.statement(scope, nesting + 1)
        return [self.bounded(scope, s, d) if self.chance(0.9) else name for name, s, d, _ in parts]

    def loop(self, scope: dict, nesting: int, head: str, inside: dict, y: bool) -> tuple[str, list, str, list[str]]:
        """Write a body's function; ``head`` has its parameters after or before the carry."""
        parts, f = self.carried(scope), self.name("body")
        way, keys = self.choice(["one", "tuple", "tuple", "dict"]), [p[0] for p in parts]
        self.emit(f"def {f}({head}):")
        self.depth += 1
        self.unpack(keys, way, "c")
        inner = {**scope, **inside, **{name: (s, d) for name, s, d, _ in parts}}
        new = self.packed(self.body(inner, parts, nesting), keys, way)
        results: list[str] = []
        if y:
            for _ in range(int(self.rng.integers(0, 3))):
                results.append(self.bounded(inner, self.choice("sv"), self.choice(self.dtypes)))
            new = f"{new}, {self.packed(results, [], 'tuple') if results else 'None'}"
        self.emit(f"return {new}")
        self.depth -= 1
        return f, parts, way, keys

    def finish(self, scope: dict, call: str, parts: list, way: str, keys: list[str]) -> None:
        name = self.name("r")
        self.emit(f"{name} = {call}")
        self.unpack(keys, way, name)
        scope.update({k: (s, d) for (k, s, d, _) in parts})

    def scan(self, scope: dict, nesting: int) -> None:
        vectors = [v for v, (s, _) in scope.items() if s == "v"]
        xs = self.choice(vectors) if vectors and self.chance(0.7) else None
        inside = {"x_": ("s", scope[xs][1])} if xs else {}
        f, parts, way, keys = self.loop(scope, nesting, "c, x_", inside, True)
        first = self.packed([p[3] for p in parts], keys, way)
        back = ", reverse=True" if self.chance(0.4) else ""
        length = int(self.choice([0, 1, 2, 3, 5, 7]))
        rows = xs or f"None, length={length}"
        name = self.name("r")
        self.emit(f"{name}, ys = da.scan({f}, {first}, {rows}{back})")
        self.unpack(keys, way, name)
        scope.update({k: (s, d) for (k, s, d, _) in parts})
        out = self.name("u")
        dtype = self.choice(self.dtypes)
        # What was stacked counts, whatever dtypes it has.
        self.emit(
            f"{out} = np.tanh(sum([np.sum(q * 0.5) for q in (ys or ())], start=np.{dtype}(0.0))).astype(np.{dtype})"
        )
        scope[out] = "s", dtype

    def fori(self, scope: dict, nesting: int) -> None:
        f, parts, way, keys = self.loop(scope, nesting, "i_, c", {"i_": ("i", "index")}, False)
        low = int(self.choice([0, 0, 1, 2]))
        high = low + int(self.choice([0, 1, 2, 3, 6]))
        self.finish(
            scope,
            f"da.fori_loop({low}, {high}, {f}, {self.packed([p[3] for p in parts], keys, way)})",
            parts,
            way,
            keys,
        )

    def while_(self, scope: dict, nesting: int) -> None:
        f, parts, way, keys = self.loop(scope, nesting, "c", {}, False)
        limit, most = self.choice(["0.2", "0.9", "2.0"]), int(self.choice([0, 1, 3, 6]))
        bounded = self.chance(0.7)
        if bounded or not most:  # a Python number takes its dtype from the first step, and there may be none
            parts = [(n, s, d, f"np.{d}({v})" if v in ("0.0", "1.0") else v) for n, s, d, v in parts]
        first = self.packed([p[3] for p in parts], keys, way)
        part = {"one": "c" if len(keys) == 1 else "c[0]", "tuple": "c[0]", "dict": f"c['{keys[0]}']"}[way]
        test = (
            f"(k[0] < {most}) & (np.sum(np.abs({part.replace('c', 'k[1]', 1)})) < {limit})"
            if bounded
            else f"k[0] < {most}"
        )
        call = f"da.while_loop(lambda k: {test}, lambda k: (k[0] + 1, {f}(k[1])), (0, {first}))[1]"
        self.finish(scope, call, parts, way, keys)

    def branch(self, scope: dict, nesting: int, shape: str, dtype: str) -> str:
        f = self.name("way")
        self.emit(f"def {f}(p):")
        self.depth += 1
        inner = {**scope, "p": (shape, dtype)}
        if self.chance(0.4):
            self.statement(inner, nesting + 1)
        self.emit(f"return {self.bounded(inner, shape, dtype)}")
        self.depth -= 1
        return f

    def cond(self, scope: dict, nesting: int) -> None:
        shape, dtype = self.choice("sv"), self.choice(self.dtypes)
        a, b = self.branch(scope, nesting, shape, dtype), self.branch(scope, nesting, shape, dtype)
        out, value = self.name("u"), self.bounded(scope, shape, dtype)
        self.emit(f"{out} = da.cond({self.term(scope, 's', dtype)} > 0.3, {a}, {b}, {value})")
        scope[out] = shape, dtype

    def switch(self, scope: dict, nesting: int) -> None:
        shape, dtype = self.choice("sv"), self.choice(self.dtypes)
        ways = [self.branch(scope, nesting, shape, dtype) for _ in range(int(self.choice([1, 2, 3])))]
        out, value = self.name("u"), self.bounded(scope, shape, dtype)
        which = f"np.floor(3.0 * np.abs({self.term(scope, 's', dtype)})).astype(np.int64)"
        self.emit(f"{out} = da.switch({which}, [{', '.join(ways)}], {value})")
        scope[out] = shape, dtype

    def map(self, scope: dict, nesting: int) -> None:
        vectors = [v for v, (s, _) in scope.items() if s == "v"]
        if not vectors:
            return self.plain(scope)
        xs, out = self.choice(vectors), self.name("u")
        f = self.branch(scope, nesting, "s", scope[xs][1])
        self.emit(f"{out} = da.map({f}, {xs})")
        scope[out] = "v", scope[xs][1]
        return None

    def prefix(self, scope: dict, nesting: int) -> None:
        vectors = [v for v, (s, _) in scope.items() if s == "v"]
        if not vectors:
            return self.plain(scope)
        xs, out = self.choice(vectors), self.name("u")
        f = self.choice(["np.add", "np.maximum", "np.multiply", "lambda a, b: a + b - 0.1 * a * b"])
        self.emit(f"{out} = da.associative_scan({f}, {xs}{', reverse=True' if self.chance(0.3) else ''})")
        scope[out] = "v", scope[xs][1]
        return None

    def text(self) -> str:
        dtype, other, a = self.dtypes[0], self.dtypes[-1], f"{self.rng.uniform(0.2, 1.2):.3f}"
        scope = {"x": ("v", dtype), "a": ("s", other)}
        for _ in range(int(self.choice([1, 1, 2, 3]))):
            self.statement(scope, 0)
        made = [v for v in scope if v not in ("x", "a")]
        self.emit(f"return {', '.join(made[-4:])}")
        seed = int(self.rng.integers(1000))
        return "\n".join([
            "import numpy as np, dualad as da", f"rng = np.random.default_rng({seed})",
            f"args = (rng.uniform(-1.0, 1.5, {self.n}).astype(np.{dtype}), np.{other}({a}))",
            "def f(x, a):", *self.lines, "",
        ])  # fmt: skip


def case(seed: int) -> Case:
    writer = _Writer(seed)
    text = writer.text()
    ways = [
        "value",
        ("jvp", "vmap", "vmap of grad", "jacrev", "grad")[seed % 5],
        ("grad", "jacfwd", "grad", "hessian")[seed % 4],
    ]
    return source_case(
        f"control {seed}",
        text,
        tuple(dict.fromkeys(ways)),
        native=seed % 3 == 0,
        tolerance=2e-3 if "float32" in text else None,
    )
