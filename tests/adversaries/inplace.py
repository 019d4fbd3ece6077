"""Random loops that write in place, as they stand in textbooks: lists, buffers, tables of places, swaps, accumulators.

A program is two to four arrays, tables of whole numbers, and one or two nests of loops whose statements read and write
entries and rows at places that the loops, the tables and simple arithmetic give. Unrolled they are hundreds of
equations; ``least`` lets the compiler find loops in short ones too. For: loops found again, writes and reads of
buffers. Not for: control flow of the library's own (``control.py``).
"""

from __future__ import annotations

import numpy as np

from .cases import Case
from .compare import source_case

__all__ = ["case"]

_UNARY = ("np.sin({})", "np.tanh({})", "0.5 * {}", "np.exp(-{} * {})", "1.0 / (2.0 + {} * {})", "np.cos({})")
_BINARY = ("{} + {}", "{} - {}", "{} * {}", "np.minimum({}, {})", "np.maximum({}, {})", "np.hypot({}, {} + 2.0)")


class _Writer:
    """Writes one program."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng([20, seed])
        self.n = int(self.choice([4, 5, 5, 5, 6, 7, 8, 9, 10, 12, 16, 24]))
        self.lines: list[str] = []
        self.tables: list[str] = []
        #: name -> how it is indexed: "vector" (n,), "matrix" (n, n), "list" of n numbers, "number"
        self.arrays: dict[str, str] = {}
        self.loops: list[str] = []
        self.setup: list[str] = []

    def choice(self, items):
        return items[int(self.rng.integers(len(items)))]

    def chance(self, p: float) -> bool:
        return bool(self.rng.random() < p)

    def emit(self, text: str) -> None:
        self.lines.append("    " * (1 + len(self.loops)) + text)

    # ── what is there ────────────────────────────────────────────────────────────────────────────────────────────

    def table(self) -> str:
        """Return the name of a captured table of places, new or known."""
        if self.tables and self.chance(0.5):
            return self.choice(self.tables)
        name, n = f"t{len(self.tables)}", self.n
        places = self.choice([
            self.rng.integers(0, n, n), self.rng.permutation(n), np.arange(n)[::-1], np.minimum(np.arange(n), n - 2),
            self.rng.integers(0, max(1, n // 2), n), (np.arange(n) * 3) % n,
            np.where(self.rng.random(n) < 0.8, 0, n - 1),
        ])  # fmt: skip
        text = places.tolist()
        self.setup.append(f"{name} = {text}" if self.chance(0.5) else f"{name} = np.array({text})")
        self.tables.append(name)
        return name

    def begin(self) -> None:
        self.arrays["x"] = "vector"
        if self.chance(0.6):
            self.arrays["A"] = "matrix"
        for name in ("y", "z", "b")[: int(self.rng.integers(1, 4))]:
            kind = self.choice(["vector", "vector", "vector", "list", "matrix" if "A" in self.arrays else "vector"])
            if kind == "vector":
                maker = self.choice(["np.zeros_like(x)", "x.copy()", "x * 1.5", "np.ones(N) * x[0]", "np.sin(x)"])
            elif kind == "matrix":
                maker = self.choice(["np.zeros_like(A)", "A.copy()", "A * 0.5", "A.T.copy()"])
            else:
                maker = self.choice(["[x[q] for q in range(N)]", "[0.0] * N", "[x[q] * 0.5 for q in range(N)]"])
            self.emit(f"{name} = {maker}")
            self.arrays[name] = kind
        if self.chance(0.6):
            self.emit("s = 0.0" if self.chance(0.7) else "s = x[0] * 0.1")
            self.arrays["s"] = "number"
        self.written = [a for a in self.arrays if a not in ("x", "A")]

    # ── places and reads ─────────────────────────────────────────────────────────────────────────────────────────

    def place(self) -> str:
        """Return a whole number from 0 to n - 1, as the loops give it."""
        if not self.loops:
            return str(int(self.rng.integers(0, self.n)))
        i = self.choice(self.loops)
        ways = [i] * 6 + [
            f"({i} + 1) % N",
            f"N - 1 - {i}",
            f"({i} * 2) % N",
            f"{i} - 1",
            str(int(self.rng.integers(0, self.n))),
        ]
        if len(self.loops) > 1:
            j = self.choice(self.loops)
            ways += [f"({i} + {j}) % N", f"abs({i} - {j})"]
        if self.chance(0.35):
            return f"{self.table()}[{i}]"
        return self.choice(ways)

    def part(self, name: str) -> str:
        """Return an entry of an array, a number."""
        kind = self.arrays[name]
        if kind == "number":
            return name
        return f"{name}[{self.place()}, {self.place()}]" if kind == "matrix" else f"{name}[{self.place()}]"

    def term(self, depth: int = 0) -> str:
        """Return an expression whose value is a number of moderate size."""
        if depth > 1 or self.chance(0.35):
            return self.part(self.choice([*self.arrays, *self.written]))
        if self.chance(0.5):
            return "(" + self.choice(_BINARY).format(self.term(depth + 1), self.term(depth + 1)) + ")"
        inner = self.term(depth + 1)
        form = self.choice(_UNARY)
        return form.format(*[inner] * form.count("{}"))

    def row(self, width: str) -> str:
        """Return an expression whose value is a row."""
        matrices = [a for a, kind in self.arrays.items() if kind == "matrix"]
        vectors = [a for a, kind in self.arrays.items() if kind == "vector"]
        name = self.choice(matrices + vectors)
        text = f"{name}[{self.place()}]" if name in matrices else name
        if name in matrices and self.chance(0.4):
            text = f"{name}[:, {self.place()}]"
        return text + (width if width != "[:]" else "")

    # ── statements ───────────────────────────────────────────────────────────────────────────────────────────────

    def statement(self) -> None:
        matrices = [a for a in self.written if self.arrays[a] == "matrix"]
        roll = self.rng.random()
        if matrices and roll < 0.3:
            self.rows(self.choice(matrices))
        elif roll < 0.42:
            self.pair()
        elif roll < 0.5:
            self.swap()
        elif roll < 0.57 and any(self.arrays[a] == "vector" for a in self.written):
            name = self.choice([a for a in self.written if self.arrays[a] == "vector"])
            self.emit(f"{name} = {name}.copy()")
            self.emit(f"{name}[{self.place()}] {self.choice(['+=', '=', '-='])} np.tanh({self.term()})")
        else:
            name = self.choice(self.written)
            target, step = self.part(name), self.choice(["+=", "+=", "-=", "*=", "="])
            bounded = f"np.tanh({self.term()})" if self.chance(0.6) else f"0.1 * np.sin({self.term()})"
            if step == "*=":
                bounded = f"(1.0 + 0.1 * np.sin({self.term()}))"
            self.emit(f"{target} {step} {bounded}")

    def rows(self, name: str) -> None:
        """Write a row, a column or a piece of one."""
        width = self.choice(["[:]", "[:]", "[1:]", "[:-1]", "[::2]", f"[{self.place()}:]"])
        inner = width[1:-1] if width != "[:]" else ":"
        place = self.place()
        target = f"{name}[{place}, {inner}]" if self.chance(0.6) else f"{name}[{inner}, {place}]"
        if width == "[:]" and self.chance(0.3):
            target = f"{name}[{place}]"
        step = self.choice(["+=", "-=", "=", "+="])
        self.emit(f"{target} {step} 0.3 * np.sin({self.row(width)}) * {self.part(self.choice([*self.arrays]))}")

    def pair(self) -> None:
        """Write at two places with one value, as forces do."""
        name = self.choice(self.written)
        if self.arrays[name] == "number":
            return self.statement()
        self.emit(f"g = np.tanh({self.term()})")
        other = self.choice([a for a in self.written if self.arrays[a] != "number"])
        self.emit(f"{self.part(name)} += g")
        self.emit(f"{self.part(other)} -= {self.choice(['g', '0.5 * g', 'g * g', f'0.2 * {self.part(name)}'])}")
        return None

    def swap(self) -> None:
        """Exchange two entries."""
        names = [a for a in self.written if self.arrays[a] in ("vector", "list", "matrix")]
        if not names:
            return self.statement()
        name = self.choice(names)
        a, b = self.part(name), self.part(name)
        if self.chance(0.5):
            self.emit(f"{a}, {b} = {b}, {a}")
        elif self.chance(0.5):
            self.emit(f"{a}, {b} = np.minimum({a}, {b}), np.maximum({a}, {b})")
        else:
            self.emit(f"h = {a} * 1.0")
            self.emit(f"{a} = {b} * 0.9")
            self.emit(f"{b} = h")
        return None

    def nest(self) -> None:
        """Write a nest of loops."""
        # A program is hundreds of equations, not tens of thousands.
        depth = int(self.choice([1, 2, 2, 3] if self.n <= 5 else [1, 2, 2] if self.n <= 10 else [1, 1, 1, 1, 2]))
        for d in range(depth):
            i = "ijk"[d]
            outer = self.loops[-1] if self.loops else None
            ranges = ["range(N)"] * 3 + ["range(1, N)", "range(N - 1)", "range(N - 1, -1, -1)", "range(0, N, 2)"]
            if outer:
                ranges += [f"range({outer})", f"range({outer} + 1)", f"range({outer} + 1, N)", f"range({outer}, N)"] * 2
            elif self.tables or self.chance(0.2):
                ranges += [f"{self.table()}"]
            self.emit(f"for {i} in {self.choice(ranges)}:")
            self.loops.append(i)
            if d + 1 < depth and self.chance(0.3):
                self.statement()
        for _ in range(int(self.rng.integers(1, 4))):
            self.statement()
        if len(self.loops) > 1 and self.chance(0.4):
            self.loops.pop()
            self.statement()
        self.loops.clear()

    def text(self) -> str:
        self.begin()
        for _ in range(int(self.choice([1, 1, 2, 2]))):
            self.nest()
            if self.chance(0.2):
                self.statement()
        outs = [f"np.stack({a})" if self.arrays[a] == "list" and self.chance(0.5) else a for a in self.written]
        outs = [f"sum({a})" if self.arrays.get(a) == "list" else a for a in outs]
        self.emit(f"return {', '.join(outs)}" if self.chance(0.7) or len(outs) == 1 else f"return {outs[0]}")
        names = ["x", *["A"] * ("A" in self.arrays)]
        seed = int(self.rng.integers(1000))
        makers = {"x": f"rng.uniform(0.3, 1.7, {self.n})", "A": f"rng.uniform(-1.0, 1.0, ({self.n}, {self.n}))"}
        return "\n".join([
            "import numpy as np, dualad as da", f"N = {self.n}", *self.setup, f"rng = np.random.default_rng({seed})",
            f"args = ({', '.join([makers[a] for a in names])},)", f"def f({', '.join(names)}):", *self.lines, "",
        ])  # fmt: skip


def case(seed: int) -> Case:
    writer = _Writer(seed)
    text = writer.text()
    ways = ["value", "grad", ("jvp", "vmap", "vmap of grad", "jacrev")[seed % 4]]
    if writer.n <= 6 and seed % 3 == 0:
        ways.append("hessian" if seed % 2 else "jacfwd")
    # Machine code costs seconds a program, and most of what goes wrong here goes wrong before it.
    return source_case(f"inplace {seed}", text, ways, native=seed % 3 == 0, least=(30, 60, None)[seed // 3 % 3])
