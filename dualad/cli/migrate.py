"""``dualad migrate``: programs written for autograd or JAX, with NumPy's and dualad's names; a diff first.

Not for: the names (``moved_names.py``).
"""

from __future__ import annotations

import argparse
import ast
import builtins
import difflib
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from dualad.errors import UsageError

from .files import write
from .moved_names import LIBRARIES, Decision, Library

__all__ = ["rewrite", "run"]

# Imports are rewritten statement by statement, names where they are used, and what a human must decide gets a comment
# above its statement; all other text, comments and layout stay.

_SCATTER = {
    "set": "{x}[{i}] = {v}", "add": "np.add.at({x}, {i}, {v})", "multiply": "np.multiply.at({x}, {i}, {v})",
    "min": "np.minimum.at({x}, {i}, {v})", "max": "np.maximum.at({x}, {i}, {v})",
}  # fmt: skip
_AT = "on an array x.at[i].set(v) is: x = x.copy(); x[i] = v"


@dataclass
class Rewriting:
    """A new text, and where a human must decide: pairs of a line of the old text and what to do."""

    text: str
    decisions: list[tuple[int, str]] = field(default_factory=list)


def rewrite(text: str, library: Library, name: str) -> Rewriting:
    """Return a program's text without a library; ``name`` is the library's."""
    return _Rewriter(text, library, name).done()


class _Rewriter:
    def __init__(self, text: str, library: Library, name: str) -> None:
        # The places of `ast` count the bytes of a line.
        self.source = text.encode()
        self.library, self.name = library, name
        self.starts = [0]
        for line in self.source.splitlines(keepends=True):
            self.starts.append(self.starts[-1] + len(line))
        self.tree = ast.parse(text)
        self.taken = {n.id for n in ast.walk(self.tree) if isinstance(n, ast.Name)}
        self.taken |= {n.arg for n in ast.walk(self.tree) if isinstance(n, ast.arg)}
        self.parents = {child: node for node in ast.walk(self.tree) for child in ast.iter_child_nodes(node)}
        #: local name -> what it stands for, in the library
        self.bound: dict[str, str] = {}
        self.imports = [n for n in ast.walk(self.tree) if isinstance(n, (ast.Import, ast.ImportFrom))]
        self.here: set[str] = set()  # what imports that stay bind
        for node in self.imports:
            for local, old, _ in self.bindings(node):
                if old is None:
                    self.here.add(local)
                else:
                    self.bound[local] = old
        #: local names that must stay, as something undecided is still reached through them
        self.kept: set[str] = set()
        #: local name -> import lines that names reached through it need now
        self.needs: dict[str, list[str]] = {}
        self.renamed: dict[str, str] = {}
        self.edits: list[tuple[int, int, str]] = []
        self.found: Rewriting = Rewriting(text)
        self.commented: set[tuple[int, str]] = set()

    # ── what names mean ──────────────────────────────────────────────────────────────────────────────────────────

    def bindings(self, node: ast.Import | ast.ImportFrom) -> Iterator[tuple[str, str | None, ast.alias]]:
        """Yield the local names that an import binds, and what of the library they stand for."""
        for alias in node.names:
            if isinstance(node, ast.Import):
                top = alias.name.partition(".")[0]
                local, old = alias.asname or top, alias.name if alias.asname else top
            else:
                local, old = alias.asname or alias.name, f"{node.module}.{alias.name}" if not node.level else "."
                if alias.name == "*" and not node.level:
                    old = node.module or ""
            yield local, old if old.partition(".")[0] == self.name else None, alias

    def moved(self, old: str) -> str | Decision:
        """Return the new name of an old one."""
        head, rest = old, ""  # `old` begins with a name that is in the table: the library's
        while head not in self.library.names:
            head, _, last = head.rpartition(".")
            rest = f".{last}{rest}"
        new = self.library.names[head]
        if isinstance(new, Decision):
            return Decision(f"{old}: {new.words}")
        full = new + rest
        parts = full.split(".")
        if parts[0] == "numpy" and len(parts) > 1 and not hasattr(np, parts[1]):
            return Decision(f"{old}: NumPy has no {parts[1]}")
        return full

    def is_namespace(self, old: str) -> bool:
        """Whether an old name is a module whose names went to several places, and which has no successor itself."""
        new = self.library.names.get(old)
        inside = any(name.startswith(f"{old}.") for name in self.library.names)
        return inside and (new is None or isinstance(new, Decision) or old == self.name)

    def reference(self, new: str, root: str) -> str:
        """Return how a new name is written where nothing binds it, and note the import."""
        module, _, last = new.rpartition(".")
        if new == "numpy":
            module = new
        elif not module:
            return new
        if module == "dualad" or module.partition(".")[0] == "numpy":
            short, line = ("da", "import dualad as da") if module == "dualad" else ("np", "import numpy as np")
            if short in self.here or short not in self.taken or self.bound.get(short, "").endswith(".numpy"):
                written = short + new[len("dualad" if short == "da" else "numpy") :]
                self.need(root, line if short not in self.here else "")
                return written
            module = new.partition(".")[0]
        self.need(root, f"import {module}")
        return f"{module}.{last}" if new.startswith(module + ".") else new

    def need(self, root: str, line: str) -> None:
        lines = self.needs.setdefault(root, [])
        if line and line not in lines:
            lines.append(line)

    # ── edits ────────────────────────────────────────────────────────────────────────────────────────────────────

    def span(self, node: Any) -> tuple[int, int]:
        return (
            self.starts[node.lineno - 1] + node.col_offset,
            self.starts[node.end_lineno - 1] + node.end_col_offset,
        )

    def text_of(self, node: ast.AST) -> str:
        start, end = self.span(node)
        return self.source[start:end].decode()

    def replace(self, node: ast.AST, new: str) -> None:
        self.edits.append((*self.span(node), new))

    def decide(self, node: ast.AST, words: str) -> None:
        """Put a comment above the statement that a node is in."""
        self.found.decisions.append((node.lineno, words))  # type: ignore[attr-defined]
        statement: Any = node
        while not isinstance(statement, (ast.stmt, ast.ExceptHandler)):
            statement = self.parents[statement]
        line = min([statement.lineno, *[d.lineno for d in getattr(statement, "decorator_list", ())]])
        start = self.starts[line - 1]
        code = self.source[start : self.starts[line]]
        indent = code[: len(code) - len(code.lstrip())].decode()
        comment = f"{indent}# dualad: {words}\n"
        before = self.source[self.starts[line - 2] : start].decode() if line > 1 else ""
        if (line, words) not in self.commented and before != comment:
            self.commented.add((line, words))
            self.edits.append((start, start, comment))

    def done(self) -> Rewriting:
        """Go through the program, and return its new text."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Call):
                self.call(node)
            elif isinstance(node, (ast.Name, ast.Attribute)):
                self.chain(node)
        for local, old in self.bound.items():
            new = self.library.aliases.get(local)
            if new is not None and new != local and self.moved(old) == "numpy":
                free = new not in self.taken or new in self.here
                self.renamed[local] = new if free else local
        if self.renamed:
            for node in ast.walk(self.tree):
                if isinstance(node, ast.Name) and self.renamed.get(node.id, node.id) != node.id:
                    self.edit_name(node, self.renamed[node.id])
        for node in self.imports:
            if any(old is not None for _, old, _ in self.bindings(node)):
                self.rewrite_import(node)
        out: list[bytes] = []
        at = 0
        for start, end, new in sorted(self.edits, key=lambda edit: (edit[0], edit[1])):
            if start < at:
                continue  # inside of a replacement
            out += [self.source[at:start], new.encode()]
            at = end
        self.found.text = b"".join([*out, self.source[at:]]).decode()
        self.found.decisions.sort()
        return self.found

    def edit_name(self, node: ast.Name, new: str) -> None:
        if not any(start <= self.span(node)[0] < end for start, end, _ in self.edits):
            self.replace(node, new)

    def chain(self, node: ast.Name | ast.Attribute) -> None:
        """Look at ``a.b.c``, once, from its end."""
        parent = self.parents.get(node)
        if isinstance(parent, ast.Attribute):
            return
        links: list[ast.expr] = [node]
        while isinstance(links[-1], ast.Attribute):
            links.append(links[-1].value)
        if not isinstance(links[-1], ast.Name) or links[-1].id not in self.bound:
            return
        root = links[-1].id
        old, nodes = self.bound[root], links[::-1]
        # The longest part that is a name of the library: `jnp.pi.real` ends with an attribute of a number.
        names = [old]
        for link in nodes[1:]:
            names.append(f"{names[-1]}.{link.attr}")  # type: ignore[attr-defined]
        end = max([i for i, n in enumerate(names) if n in self.library.names], default=0)
        if end == 0 and len(names) > 1 and self.is_namespace(old):
            end = 1
        here = names[-1] if not isinstance(self.moved(names[end]), Decision) else names[end]
        new = self.moved(here)
        if isinstance(new, Decision):
            self.kept.add(root)
            self.decide(node, new.words)
            return
        direct = self.moved(old) if not self.is_namespace(old) else None
        if isinstance(direct, str) and new == direct + here[len(old) :]:
            return  # what the import binds from now on
        moved_end = self.moved(names[end])
        assert isinstance(moved_end, str)
        self.replace(nodes[end], self.reference(moved_end, root))

    def call(self, node: ast.Call) -> None:
        """Look at keywords, at methods that go, and at ``x.at[i].set(v)``."""
        f = node.func
        new = self.new_name(f)
        for keyword in node.keywords:
            other = self.library.keywords.get(new or "", {}).get(keyword.arg or "")
            if other:
                start = self.span(keyword)[0]
                self.edits.append((start, start + len(keyword.arg or ""), other))
        if not isinstance(f, ast.Attribute):
            return
        if f.attr in self.library.removed_methods:
            self.edits.append((self.span(f.value)[1], self.span(node)[1], ""))
        target = f.value
        if self.name == "jax" and isinstance(target, ast.Subscript) and isinstance(target.value, ast.Attribute) and (
            target.value.attr == "at"
        ):  # fmt: skip
            self.scatter(node, f.attr, target.value.value, target.slice)

    def new_name(self, f: ast.expr) -> str | None:
        links: list[ast.expr] = [f]
        while isinstance(links[-1], ast.Attribute):
            links.append(links[-1].value)
        if not isinstance(links[-1], ast.Name) or links[-1].id not in self.bound:
            return None
        new = self.moved(".".join([self.bound[links[-1].id], *[link.attr for link in links[-2::-1]]]))  # type: ignore[attr-defined]
        return new if isinstance(new, str) else None

    def scatter(self, node: ast.Call, method: str, array: ast.expr, index: ast.expr) -> None:
        """Write ``x = x.at[i].set(v)`` as a write to a copy; leave others, which are right on tensors, to a human."""
        statement: Any = self.parents[node]
        whole = isinstance(statement, ast.Assign) and len(statement.targets) == 1 and isinstance(array, ast.Name)
        same = whole and ast.dump(statement.targets[0]) == ast.dump(ast.Name(self.text_of(array), ast.Store()))
        before = self.source[self.starts[statement.lineno - 1] : self.span(statement)[0]].decode() if same else "x"
        known = method in _SCATTER and len(node.args) == 1 and not node.keywords and self.bound
        if not same or before.strip() or not known:
            self.decide(node, _AT)
            return
        # The text in between is kept, with its own replacements.
        x, value, write = self.text_of(array), node.args[0], _SCATTER[method]
        if "np." in write:
            write = write.replace("np", self.reference("numpy", next(iter(self.bound))), 1)
            if any(isinstance(part, ast.Slice) for part in ast.walk(index)):
                write = write.replace("{i}", "np.s_[{i}]")
        head, between, tail = re.split(r"{[iv]}", write.replace("{x}", x))
        start = self.span(statement)[0]
        self.edits.append((start, self.span(index)[0], f"{x} = {x}.copy()\n{before}{head}"))
        self.edits.append((self.span(index)[1], self.span(value)[0], between))
        self.edits.append((self.span(value)[1], self.span(statement)[1], tail))

    def rewrite_import(self, node: ast.Import | ast.ImportFrom) -> None:
        """Replace an import by those of what its names have become."""
        lines: list[str] = []
        joined: dict[str, list[str]] = {}

        def add(line: str) -> None:
            if line and line not in lines:
                lines.append(line)

        for local, old, alias in self.bindings(node):
            if old is None:
                add(f"import {alias.name}" + (f" as {alias.asname}" if alias.asname else ""))
                continue
            used = {n.id for n in ast.walk(self.tree) if isinstance(n, ast.Name)}
            new = self.moved(old)
            for line in self.needs.get(local, []):
                add(line)
            if isinstance(new, Decision) and (local in self.kept or not self.is_namespace(old)):
                if not self.is_namespace(old):
                    self.decide(node, new.words)
                if isinstance(node, ast.Import):
                    add(f"import {alias.name}" + (f" as {alias.asname}" if alias.asname else ""))
                else:
                    joined.setdefault(node.module or "", []).append(_as(alias.name, alias.asname))
            elif self.is_namespace(old) or isinstance(new, Decision):
                continue
            elif alias.name == "*":
                add(f"from {new} import *")
            elif isinstance(node, ast.Import) and not alias.asname:
                continue  # `import autograd.numpy` binds autograd
            else:
                name = self.renamed.get(local, local)
                module, _, last = new.rpartition(".")
                if name != local and name in self.here and name in used | {name}:
                    continue  # the file has it
                if not module and hasattr(builtins, last):
                    if name != last:
                        add(f"{name} = {last}")
                elif not module or (isinstance(node, ast.Import) and module == "numpy"):
                    add(f"import {_as(new, name)}")
                else:
                    joined.setdefault(module, []).append(_as(last, name))
        for module, names in joined.items():
            add(f"from {module} import {', '.join(names)}")
        start, end = self.span(node)
        before = self.source[self.starts[node.lineno - 1] : start].decode()
        after = self.source[end : self.starts[node.end_lineno or 0]].decode()
        alone = not before.strip() and not after.lstrip().startswith(";")
        body = getattr(self.parents[node], "body", [node])
        if not lines and alone and len(body) > 1 and not after.strip():
            self.edits.append((self.starts[node.lineno - 1], self.starts[node.end_lineno or 0], ""))
            return
        separator = f"\n{before}" if alone else "; "
        self.edits.append((start, end, separator.join(lines) or "pass"))


def _as(name: str, local: str | None) -> str:
    return name if local in (None, name) else f"{name} as {local}"


def run(options: argparse.Namespace) -> int:
    """Print what would change, or change it; return 1 if something is left to a human."""
    changed = left = 0
    for path in _files(options.files):
        old = _read(path)
        made = _rewritten(path, old, options.library)
        left += len(made.decisions)
        if made.text != old:
            changed += 1
            if options.write:
                write(str(path), made.text)
            else:
                _print_diff(str(path), old, made.text)
        for line, words in made.decisions:
            print(f"{path}:{line}: {words}", file=sys.stderr)
    files = f"{changed} file{'s' * (changed != 1)}"
    done = f"{files} changed" if options.write else f"{files} would change (--write)"
    print(f"{done}, {left} place{'s' * (left != 1)} to decide", file=sys.stderr)
    return 1 if left else 0


def _files(names: list[str]) -> list[Path]:
    found: list[Path] = []
    for name in names:
        path = Path(name)
        if not path.exists():
            raise UsageError(f"You asked to migrate {name}.", "There is no such file.", "Name files, or folders.")
        found += sorted(path.rglob("*.py")) if path.is_dir() else [path]
    return found


def _read(path: Path) -> str:
    try:
        return path.read_bytes().decode()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"You asked to migrate {path}.", f"It can't be read: {error}.", "Name a text file.") from error


def _rewritten(path: Path, old: str, name: str) -> Rewriting:
    try:
        return rewrite(old, LIBRARIES[name], name)
    except SyntaxError as error:
        raise UsageError(
            f"You asked to migrate {path}.", f"It is no Python program: {error}.", "Name files of Python programs."
        ) from error


def _print_diff(name: str, old: str, new: str) -> None:
    lines = difflib.unified_diff(old.splitlines(True), new.splitlines(True), name, name)
    sys.stdout.writelines(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)
