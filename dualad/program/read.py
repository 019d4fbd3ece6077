"""Reading a program back from the text that ``show`` prints.

For: programs kept in files, and the test that printing loses nothing. Not for: evaluating Python; the text is parsed
with ``ast`` and only literals, dtypes and slices are understood.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..base.later import load_everything
from ..core.aval import Aval
from ..core.tables import OPS
from ..errors import ProgramError
from .ir import Program
from .show import GAP
from .variable import Variable

__all__ = ["read_program"]

_TYPE = re.compile(r"^(bool|[iufc])(\d*)\[([\d,]*)\]$")


def read_program(text: str, constants: Mapping[str, Any] | None = None) -> Program:
    """Read a program from the text that ``str(program)`` gives.

    Parameters
    ----------
    text : str
        The text.
    constants : mapping of str to array, optional
        Values of the constants whose values the text leaves out (long arrays), by name.

    Returns
    -------
    Program
        The program; it takes and returns flat lists of arrays.

    Raises
    ------
    ProgramError
        If the text is not a program, names an unknown operator, or a constant's value is missing.

    Examples
    --------
    >>> import numpy as np
    >>> import dualad as da
    >>> program = da.trace(lambda x: np.sin(x) * 2.0, np.zeros(2))
    >>> str(da.read_program(str(program))) == str(program)
    True
    """
    if not isinstance(text, str):
        raise ProgramError(
            f"read_program was given a {type(text).__name__}.", "it reads text", "pass str(program)",
        )  # fmt: skip
    lines = [line for line in text.strip().splitlines() if line.strip()]
    if any(line.strip().startswith(GAP) for line in lines):
        raise ProgramError(
            "the text leaves equations or constants out.",
            "str(program) prints no more than a thousand equations",
            "print the whole program: program.to_text()",
        )
    env: dict[str, Any] = {}
    body = lines[1:]
    if "where:" in body:
        cut = body.index("where:")
        for line in body[cut + 1 :]:
            name, value = _constant(line, constants or {})
            env[name] = value
        body = body[:cut]
    blocks: list[list[str]] = []
    for line in [*lines[:1], *body]:
        if line.startswith("program ") or not blocks:
            blocks.append([])
        blocks[-1].append(line)
    if not blocks:
        raise _no_program()
    # A program is printed before the programs in its parameters.
    programs: dict[str, Program] = {}
    for block in reversed(blocks):
        program = _block(block, env, programs)
        programs[program.name] = program
    return program


def _block(lines: list[str], constants: dict, programs: dict) -> Program:
    header = re.match(r"^program (\w+)\((.*)\):$", lines[0])
    if header is None or not lines[-1].strip().startswith("return"):
        raise _no_program()
    env = dict(constants)
    inputs = _declare(header[2], env)
    steps = [_step(line.strip(), env, programs) for line in lines[1:-1]]
    results = lines[-1].strip().removeprefix("return").strip()
    outputs = [_atom(e, env) for e in _elements(results)] if results else []
    return Program(inputs, steps, outputs, header[1])


def _no_program() -> ProgramError:
    return ProgramError(
        "the text is not a program.",
        "it begins with `program name(a: f64[3], ...):` and ends with `return ...`",
        "give it as str(program) prints it",
    )


_AS_PRINTED = "start from a text that a program has printed: str(program)"


def _step(line: str, env: dict, programs: dict) -> tuple:
    left, _, right = line.partition(" = ")
    call = _parse(right)
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
        raise ProgramError(
            f"{line!r} is not an equation.", "an equation is `b: f64[3] = op(a, param=value)`", _AS_PRINTED
        )
    if call.func.id not in OPS:
        load_everything()
    op = OPS.get(call.func.id)
    if op is None:
        raise ProgramError(
            f"{line!r} uses the unknown operator {call.func.id!r}.",
            "no operator of this name has been declared",
            "see `python -m dualad ops` for the names, and import the module that declares an operator of your own",
        )
    args = tuple([_atom(a, env) for a in call.args])
    params = {str(k.arg): _value(k.value, programs) for k in call.keywords}
    return op, args, params, tuple(_declare(left, env))


def _declare(text: str, env: dict) -> list[Variable]:
    """Read ``a: f64[3], b: f64[]`` and enter the new variables in the environment."""
    variables = []
    for name, kind in re.findall(r"(\w+): ([^\s]+\])", text):
        env[name] = Variable(_aval(kind.rstrip(",")))
        variables.append(env[name])
    return variables


def _aval(text: str) -> Aval:
    match = _TYPE.match(text)
    if match is None:
        raise ProgramError(
            f"{text!r} is not a type.", "a type is written f64[2,3], c128[], i64[4] or bool[3]", _AS_PRINTED
        )
    kind, bits, shape = match.groups()
    dtype = np.dtype(bool) if kind == "bool" else np.dtype(f"{kind}{int(bits) // 8}")
    return Aval(tuple([int(n) for n in shape.split(",") if n]), dtype)


def _constant(line: str, given: Mapping) -> tuple[str, Any]:
    name, _, rest = line.strip().partition(": ")
    kind, _, value = rest.partition(" = ")
    if name in given:
        return name, given[name]
    if not value:
        raise ProgramError(
            f"the text leaves out the value of constant {name} ({kind.strip()}).",
            "long arrays and tensors of outer transforms are not printed",
            f"pass it: read_program(text, constants={{{name!r}: array}})",
        )
    aval = _aval(kind)
    return name, np.asarray(_value(_parse(value)), aval.dtype).reshape(aval.shape)[()]


def _elements(text: str) -> list[ast.expr]:
    tree = _parse(text)
    return list(tree.elts) if isinstance(tree, ast.Tuple) else [tree]


def _parse(text: str) -> ast.expr:
    try:
        return ast.parse(text, mode="eval").body
    except SyntaxError as error:
        raise ProgramError(
            f"{text!r} can't be read: {error.msg}.", "the right side of an equation is a Python expression", _AS_PRINTED
        ) from None


def _atom(node: ast.expr, env: dict):
    if isinstance(node, ast.Name) and node.id in env:
        return env[node.id]
    return _value(node)


_NAMES = {"Ellipsis": Ellipsis, "inf": float("inf"), "nan": float("nan"), "None": None, "True": True, "False": False}


def _value(node: ast.expr, programs: Mapping[str, Program] | None = None):
    """Evaluate a literal; beside Python's own, ``inf``, ``nan``, ``dtype('<f8')``, ``slice(0, 2, None)``, a program."""
    if isinstance(node, ast.Name) and programs and node.id in programs:
        return programs[node.id]
    if isinstance(node, ast.Name) and node.id in _NAMES:
        return _NAMES[node.id]
    if isinstance(node, (ast.List, ast.Tuple)):
        values = [_value(e, programs) for e in node.elts]
        return values if isinstance(node, ast.List) else tuple(values)
    if isinstance(node, ast.Dict):
        return {
            _value(k, programs): _value(v, programs)
            for k, v in zip(node.keys, node.values, strict=True)
            if k is not None
        }
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_value(node.operand, programs)
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub)):
        left, right = _value(node.left, programs), _value(node.right, programs)
        return left + right if isinstance(node.op, ast.Add) else left - right
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("dtype", "slice"):
        arguments = [_value(a, programs) for a in node.args]
        return np.dtype(*arguments) if node.func.id == "dtype" else slice(*arguments)
    if isinstance(node, ast.Constant):
        return node.value
    raise ProgramError(
        f"{ast.unparse(node)!r} is not a value that a program's text can hold.",
        "values are literals, inf, nan, dtype(...), slice(...), or the name of a program printed below",
        _AS_PRINTED,
    )
