"""The house rules, read from the source with `ast`: floors, file lengths, `__all__`, docstrings, no JAX inside.

Not for behaviour: nothing here runs the library except one test that imports it in a fresh process.
"""

from __future__ import annotations

import ast
import functools
import gc
import inspect
import itertools
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

import dualad
from dualad.core.above import ABOVE

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "dualad"

# A room imports lower floors only: neither its neighbours nor what stands above it. Its own files import each other
# as they like, but not in a circle.
FLOOR = {
    "errors": 0,
    "base": 1,
    "core": 2,
    "tree": 2,
    "guards": 3,
    "memory": 3,
    "ops": 3,
    "batched": 4,
    "boundary": 4,
    "program": 4,
    "surface": 4,
    "dual": 5,
    "tensors": 5,
    "wiring": 5,
    "jvp": 6,
    "numpy": 6,
    "scale": 6,
    "lift": 7,
    "transforms": 7,
    "vmap": 7,
    "vjp_via_transpose": 8,
    "jacobians": 9,
    "rules": 9,
    "annex": 10,
    "control": 10,
    "diagnose": 10,
    "compile": 11,
    "scipy": 11,
    "series": 11,
    "sparse": 11,
    "testing": 11,
    "cli": 12,
    "compat": 12,
    "__init__": 13,
    "__main__": 13,
}

# What is built on the engine, which knows nothing of it: rooms that may be left out.
ANNEXES = {"annex", "cli", "compat", "compile", "diagnose", "lift", "scale", "scipy", "series", "sparse", "testing"}

# The one kind of module that may load JAX, and only by name, at the moment it is asked to: an oracle.
ORACLE_WORD = "oracle"

# Test files that mirror no module: each is about a promise that runs through several of them.
TESTS_WITHOUT_A_MODULE = {
    "test_house.py",
    "test_third_party_level.py",
    "test_threads.py",
    "compile/test_found_loops.py",
    "compile/test_layout.py",
    "compile/test_strong_zeros.py",
    "compile/test_structure.py",
    "compile/test_values.py",
    "ops/test_every_op.py",
    "ops/test_special_values*.py",
    "ops/test_checkers_catch.py",
    "ops/test_random_programs.py",
    "scipy/test_scipy_direct.py",
    "surface/test_completeness.py",
    "surface/test_signatures.py",
    "surface/test_like_numpy.py",
    "surface/test_leaks.py",
    "surface/test_order_in_memory.py",
    "surface/test_random_writes.py",
    "surface/test_aliases.py",
    "surface/test_written_programs.py",
}
TEST_FOLDERS_WITHOUT_A_PACKAGE = {
    "adversaries",
    "capabilities",
    "compose",
    "docs",
    "edges",
    "examples",
    "benchmarks",
    "packages",
    "packaging",
    "typing",
}

MODULES = sorted(PACKAGE.rglob("*.py"))


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def room_of(path: Path) -> str:
    return path.relative_to(PACKAGE).with_suffix("").parts[0]


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULE_PATHS = {module_name(path): path for path in MODULES}


def statements(node: ast.AST, for_types: bool = False) -> Iterator[tuple[ast.AST, bool]]:
    """Yield the statements in a node, at any depth, and whether they are for type checkers only."""
    for name in node._fields:
        if name not in ("body", "orelse", "finalbody", "handlers", "cases"):
            continue
        for inner in getattr(node, name):
            yield inner, for_types
            if not isinstance(inner, (ast.Expr, ast.Assign, ast.Return)):  # most statements have none inside
                yield from statements(inner, for_types or (isinstance(inner, ast.If) and is_for_types(inner.test)))


def is_for_types(test: ast.expr) -> bool:
    name = test.attr if isinstance(test, ast.Attribute) else getattr(test, "id", "")
    return name == "TYPE_CHECKING"


def read_imports(found: list[tuple[ast.AST, bool]], package: str) -> Iterator[tuple[str, int, bool]]:
    """Yield (absolute module name, line, whether it is for type checkers only), imports inside functions included."""
    for node, for_types in found:
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, node.lineno, for_types
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parts = package.split(".")
                base = ".".join([*parts[: len(parts) - (node.level - 1)], *([base] if base else [])])
            for alias in node.names:
                inside = f"{base}.{alias.name}"
                yield (inside if inside in MODULE_PATHS else base), node.lineno, for_types


class Module:
    """What the rules ask about a file: a few lists, so that no tree is kept for the garbage collector to walk."""

    def __init__(self, path: Path) -> None:
        self.text = path.read_text()
        tree = ast.parse(self.text)
        found = list(statements(tree))
        name = module_name(path)
        self.docstring = ast.get_docstring(tree) or ""
        self.imports = list(read_imports(found, name if path.name == "__init__.py" else name.rpartition(".")[0]))
        self.offered = [
            ast.literal_eval(node.value)
            for node in tree.body
            if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == "__all__" for t in node.targets)
        ]
        # A decorated function is found through its table.
        self.public = [
            node.name
            for node in tree.body
            if isinstance(node, (ast.FunctionDef, ast.ClassDef))
            and not node.name.startswith("_")
            and not node.decorator_list
        ]
        self.wired = [
            target.attr
            for node, _ in found
            if isinstance(node, ast.Assign)
            for target in node.targets
            if isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name) and target.value.id == "ABOVE"
        ]


@functools.cache
def read(path: Path) -> Module:
    gc.disable()  # which would walk through the growing tree again and again: half of the time
    try:
        return Module(path)
    finally:
        gc.enable()


def imported_modules(path: Path) -> Iterator[tuple[Path, int, bool]]:
    for name, line, for_types in read(path).imports:
        if name in MODULE_PATHS:
            yield MODULE_PATHS[name], line, for_types
        else:
            assert name.split(".")[0] != "dualad", f"{name_of(path)}:{line} imports {name}, which does not exist"


def test_no_room_imports_upwards() -> None:
    wrong = []
    for path in MODULES:
        room = room_of(path)
        assert room in FLOOR, (
            f"{name_of(path)}: give the room {room!r} a floor in tests/test_house.py and in the design"
        )
        for other_path, line, _ in imported_modules(path):
            other = room_of(other_path)
            if other != room and FLOOR[other] >= FLOOR[room]:
                where = f"{name_of(path)}:{line} imports {name_of(other_path)}"
                wrong.append(f"{where}, floor {FLOOR[other]}, from floor {FLOOR[room]}")
    assert not wrong, "\n".join(wrong)


def test_no_floor_is_left_over() -> None:
    """A room that has gone, or is still to come, has none; but for those that are being built."""
    rooms = {room_of(path) for path in MODULES}
    assert FLOOR.keys() - rooms <= {"compile", "sparse"}


def test_the_house_is_drawn_as_it_stands() -> None:
    """The page that explains the library names every room on its floor."""
    page = (ROOT / "docs" / "explanation" / "how-it-works.md").read_text()
    house = page.partition("## The floors of the package")[2].partition("```text\n")[2].partition("```")[0]
    drawn = {}
    for line in house.splitlines():
        floor, *rooms = line.partition("   ")[0].split()  # what comes after three spaces says what they are for
        drawn |= dict.fromkeys(rooms, int(floor))
    assert drawn == FLOOR


def test_what_is_called_upwards_is_wired_in_one_place() -> None:
    """The record of calls that go up is typed, complete, and filled by ``wiring.py`` alone."""
    declared = set(inspect.get_annotations(type(ABOVE)))
    wired = {path: read(path).wired for path in MODULES}
    assert [path.name for path, names in wired.items() if names] == ["wiring.py"], wired
    filled = itertools.chain(*wired.values())
    assert sorted(filled) == sorted(declared) == sorted(vars(ABOVE))


def test_the_engine_stands_alone(tmp_path: Path) -> None:
    """Without its annexes the package imports, and differentiates, batches, loops and checkpoints."""
    for path in MODULES:
        for other, line, _ in imported_modules(path):
            alone = room_of(path) in ANNEXES or room_of(other) not in ANNEXES or path.parent == PACKAGE
            assert alone, f"{name_of(path)}:{line} imports {name_of(other)}, which is no part of the engine"
    shutil.copytree(PACKAGE, tmp_path / "dualad", ignore=lambda folder, names: {
        name for name in names if Path(folder) == PACKAGE and Path(name).stem in ANNEXES
    })  # fmt: skip
    done = subprocess.run([sys.executable, "-c", ENGINE], cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(tmp_path)},
                          capture_output=True, text=True, check=False)  # fmt: skip
    assert done.returncode == 0, done.stderr


ENGINE = """
import numpy as np, dualad as da
from dualad import __file__ as place
import os
assert os.path.samefile(os.path.dirname(os.path.dirname(place)), os.getcwd()) and not hasattr(da, "compile")

def march(x):
    y = np.zeros_like(x)
    for i in range(1, len(x)):
        y[i] = 0.5 * y[i - 1] + np.sin(x[i])
    return np.sum(y**2) if y[1] > 0 else np.sum(y)

@da.custom_jvp
def cube(x):
    return x**3

cube.defjvp(lambda primals, tangents: (primals[0] ** 3, 3 * primals[0] ** 2 * tangents[0]))
x = np.linspace(0.5, 1.5, 4)
hessian = da.hessian(march)(x)
assert np.allclose(da.jacrev(da.grad(march))(x), hessian) and np.allclose(da.vmap(da.hessian(march))(x[None]), hessian)
assert np.allclose(da.grad(da.checkpoint(march))(x), da.jacfwd(march)(x))
assert da.grad(lambda c: da.scan(lambda s, v: (s * v, None), c, x)[0])(2.0) == np.prod(x)
assert da.grad(cube)(2.0) == 12.0 and da.linearize(np.sin, 0.0)[1](1.0) == 1.0 and str(da.trace(np.sin, 1.0))
"""


def test_the_core_names_no_library_but_numpy() -> None:
    """What is particular to others is in ``LIBRARIES``, which rooms above fill."""
    named = re.compile(
        r"\b(cloudpickle|cupy|dask|matplotlib|numba|pandas|sklearn|torch|xarray|(np|numpy)\.ma)\b", re.IGNORECASE
    )
    core = [path for path in MODULES if room_of(path) == "core"]
    assert not [(name_of(path), hit) for path in core for hit in named.findall(path.read_text(encoding="utf-8"))]


def test_no_import_goes_round_in_a_circle() -> None:
    """Nor in the core by what is imported for type checkers only."""
    core = {path for path in MODULES if room_of(path) == "core"}
    graph = {
        path: {
            other
            for other, _, for_types in imported_modules(path)
            if other != path and not (for_types and not {path, other} <= core)
        }
        for path in MODULES
    }
    done: set[Path] = set()

    def visit(path: Path, trail: tuple[Path, ...]) -> None:
        if path in trail:
            circle = [name_of(p) for p in (*trail[trail.index(path) :], path)]
            pytest.fail("imports go round in a circle: " + " -> ".join(circle))
        if path not in done:
            for other in sorted(graph[path]):
                visit(other, (*trail, path))
            done.add(path)

    for path in MODULES:
        visit(path, ())


@pytest.mark.parametrize(
    ("folder", "limit"), [("dualad", 600), ("tests", 600), ("benchmarks", 600), ("docs", 600), ("examples", 80)]
)
def test_no_file_outgrows_its_room(folder: str, limit: int) -> None:
    lengths = {name_of(path): len(path.read_text().splitlines()) for path in sorted((ROOT / folder).rglob("*.py"))}
    assert lengths, f"{folder}/ has no Python files"
    too_long = {name: lines for name, lines in lengths.items() if lines > limit}
    assert not too_long, f"over {limit} lines: {too_long}"


def test_docstrings_say_what_a_room_is_for_and_what_it_is_not_for() -> None:
    silent = [name_of(path) for path in MODULES if "not for" not in " ".join(read(path).docstring.lower().split())]
    assert not silent, f"say what these rooms are not for: {silent}"


def test_all_is_sorted() -> None:
    for path in MODULES:
        module = read(path)
        for names in module.offered:
            assert list(names) == sorted(set(names)), f"{name_of(path)}: __all__ is not in sorted() order"
        # Only a module with nothing to offer by name may go without.
        assert module.offered or not module.public, f"{name_of(path)} defines {module.public} but has no __all__"


def test_public_functions_are_annotated_in_full() -> None:
    without = []
    for name in dualad.__all__:
        thing = getattr(dualad, name)
        if callable(thing):
            function = thing.__init__ if isinstance(thing, type) else thing
            parameters = list(inspect.signature(function).parameters.values())[isinstance(thing, type) :]
            # *args and **kwargs of a user's own function may be anything.
            named = [p for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
            returns = inspect.signature(function).return_annotation
            if returns is inspect.Signature.empty or any(p.annotation is p.empty for p in named):
                without.append(name)
    assert not without, f"public names without full annotations: {without}"


HEAVY = {"jax", "jaxlib", "matplotlib", "sklearn"}


def test_heavy_optional_packages_are_never_imports_of_the_library() -> None:
    """They are loaded by name when they are asked for; JAX by oracles alone."""
    for path in MODULES:
        for name, line, _ in read(path).imports:
            assert name.split(".")[0] not in HEAVY, f"{name_of(path)}:{line} imports {name}"
        loads = re.search(r"(import_module|__import__)\(\s*[\"']jax", read(path).text)
        assert not loads or ORACLE_WORD in path.stem, f"{name_of(path)} loads JAX; only oracles may"


def test_importing_loads_no_heavy_optional_package() -> None:
    code = f"import sys, dualad, dualad.cli.main; print(sorted({HEAVY} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[]", f"import dualad also imported {done.stdout.strip()}"


def test_tests_mirror_the_house() -> None:
    strays = []
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        inside = path.relative_to(ROOT / "tests")
        if any(inside.match(pattern) for pattern in TESTS_WITHOUT_A_MODULE):
            continue
        if inside.parts[0] in TEST_FOLDERS_WITHOUT_A_PACKAGE:
            continue
        words = path.stem.removeprefix("test_").split("_")
        # test_vmap_branches.py mirrors vmap.py: a room may have several files of tests, by topic.
        mirrored = [PACKAGE / inside.parent / "_".join(words[:n]) for n in range(1, len(words) + 1)]
        if not any(room.with_suffix(".py").exists() or room.is_dir() for room in mirrored):
            strays.append(inside.as_posix())
    assert not strays, f"tests that mirror no module and are not in the list of exceptions: {strays}"


def test_the_package_is_complete() -> None:
    for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "Makefile", ".ci/run", "dualad/py.typed"):
        assert (ROOT / name).exists(), f"{name} is missing"
    assert "## [Unreleased]" in (ROOT / "CHANGELOG.md").read_text()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    core = {requirement.split(">")[0] for requirement in project["dependencies"]}
    assert core == {"numpy", "optree"}, "the library proper needs NumPy and optree, nothing else"


def test_the_import_reader_sees_what_is_hidden() -> None:
    """Check the checker: an import inside a function, one for types only, and a relative one are all seen."""
    source = """
from typing import TYPE_CHECKING
if TYPE_CHECKING:
    import jax.numpy
def f():
    import jaxlib
    from ..surface.ufuncs import table
"""
    seen = {
        name: (line, for_types)
        for name, line, for_types in read_imports(list(statements(ast.parse(source))), "dualad.core")
    }
    assert seen == {
        "typing": (2, False),
        "jax.numpy": (4, True),
        "jaxlib": (6, False),
        "dualad.surface.ufuncs": (7, False),
    }
