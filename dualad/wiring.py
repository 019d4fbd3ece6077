"""The one place where functions of higher floors are handed to those below that call them (``core/above.py``).

For: seeing all arrows that go up. Not for: anything else; what can be imported without going round is imported.
"""

import functools
import importlib
import sys
from typing import Any

from .boundary.type_tests import asking
from .core.above import ABOVE
from .core.tables import LIBRARIES, Library
from .memory.memory import target
from .surface.arguments import operand
from .surface.foreign import about_sparse, array_for_scipy, last_counterpart
from .surface.loops import truth
from .surface.objects import about_objects, object_array
from .surface.ufuncs import call_ufunc
from .surface.unsupported import handler_of


@functools.cache
def _lifting() -> Any:
    """Return the automatic lift, None where that room was left out."""
    try:
        return importlib.import_module("dualad.lift.by_itself")
    except ModuleNotFoundError:
        return None


def _lift(f: Any) -> Any:
    """Return the block in which a function has to run; where nothing was lifted yet, that is for code that asks."""
    lifting = sys.modules.get("dualad.lift.by_itself") or (_lifting() if asking(f) else None)
    return None if lifting is None else lifting.begin(f)


ABOVE.ufunc = call_ufunc
ABOVE.handler = handler_of
ABOVE.operand = operand
ABOVE.target = target
ABOVE.object_array = object_array
ABOVE.objects = about_objects
ABOVE.truth = truth
ABOVE.sparse = about_sparse
ABOVE.mirrored = last_counterpart
ABOVE.noting = lambda *given: importlib.import_module("dualad.numpy.random").noting(*given)
ABOVE.seeing = lambda generator: importlib.import_module("dualad.numpy.random").seeing(generator)  # loads NumPy's
# Annexes are loaded when they are called: the engine stands without them.
ABOVE.chunked = lambda *args: importlib.import_module("dualad.scale.driver").chunked(*args)
ABOVE.linear_operator = lambda f: importlib.import_module("dualad.annex.linear_operator").as_linear_operator(f)
ABOVE.sparse_operand = lambda A: importlib.import_module("dualad.scipy.sparse.traced").as_traced(A)
ABOVE.sparse_solve = lambda *args: importlib.import_module("dualad.sparse.systems").solve_linearized(*args)
ABOVE.lifted = lambda namespace: importlib.import_module("dualad.lift.lift").block(namespace)
ABOVE.lift = _lift
ABOVE.lift_after = lambda *args: None if (lifting := _lifting()) is None else lifting.after(*args)
ABOVE.lift_later = lambda names: (lifting := _lifting()) is not None and lifting.later(names)
_places = "dualad.lift.places"  # without which nothing was ever swapped
ABOVE.original = lambda *args: sys.modules[_places].original_in(*args) if _places in sys.modules else args[2]
ABOVE.compiled = lambda program: importlib.import_module("dualad.compile.call").CallProgram(program).compiled
ABOVE.machine_code = lambda program: importlib.import_module("dualad.compile.call").machine_code(program)
ABOVE.extension = lambda: importlib.import_module("dualad.compile.native.front").extension()
ABOVE.check_rule_in_use = lambda *args: importlib.import_module("dualad.testing.rules").check_rule_in_use(*args)
ABOVE.settings = {"jit": "make it a setting, jit(f, static_argnums=...)"}
ABOVE.jitted = lambda f: importlib.import_module("dualad.compile.jit").jit(f)
ABOVE.sparse_jacobian = lambda f, **given: importlib.import_module("dualad.sparse").sparse_jacobian(f, **given)
ABOVE.recomputed = lambda *args: importlib.import_module("dualad.control.segments").recomputed(*args)
ABOVE.sparsity = lambda f, *x: importlib.import_module("dualad.sparse.detect").jacobian_sparsity(f, *x, scope="global")
ABOVE.sparse_hessian = lambda f, **given: importlib.import_module("dualad.sparse").sparse_hessian(f, **given)
LIBRARIES["scipy"] = Library(as_array=array_for_scipy)
LIBRARIES["dask"] = Library(
    run=lambda *args: importlib.import_module("dualad.scale.dask").write_into_graph(*args),
    words="x.compute() gives an array of NumPy's",
)
