"""dualad: forward-mode and batched automatic differentiation of plain NumPy code.

This is the door: the public names. Not for: anything else; whatever has a body lives in a room of its own.
"""

from typing import TYPE_CHECKING

from . import numpy
from .dual import Dual, dual_level, float0, make_dual, unpack_dual
from .hessian import hessian, hessian_diag, hvp, laplacian, value_and_hessian, value_and_hvp
from .jacobian import jacfwd, jacobian, jacrev, value_and_jacfwd, value_and_jacrev
from .jvp import jvp, stop_gradient
from .later import load_later
from .linear_operator import hessian_operator
from .linearize import linearize
from .ops.kinks import kinks
from .trace import trace
from .tree import register_dataclass, register_node
from .version import __version__  # noqa: F401 - public, and not for `import *`
from .vjp_via_transpose import grad, linear_transpose, value_and_grad, vjp
from .vmap import vmap

if TYPE_CHECKING:
    from .checkpoint import checkpoint, checkpoint_name, checkpoint_policies
    from .collectives import all_gather, axis_index, axis_size, pmax, pmean, pmin, psum
    from .control_flow import cond, switch, while_loop
    from .custom import SymbolicZero, custom_jvp
    from .custom_vjp import custom_vjp, once_differentiable
    from .custom_vmap import custom_vmap
    from .debug import debug, debug_nans
    from .explain import explain
    from .hooks import grad_hook, no_tangents, residual_hooks
    from .implicit import custom_root, fixed_point
    from .lift import lift
    from .linear_call import linear_call
    from .linear_solve import custom_linear_solve
    from .loops import associative_scan, fori_loop, map, scan
    from .pattern import spy
    from .profiling import profile
    from .program.read import read_program
    from .uncertainty import propagate
    from .wrap import wrap

__all__ = [
    "Dual",
    "SymbolicZero",
    "all_gather",
    "associative_scan",
    "axis_index",
    "axis_size",
    "checkpoint",
    "checkpoint_name",
    "checkpoint_policies",
    "cond",
    "custom_jvp",
    "custom_linear_solve",
    "custom_root",
    "custom_vjp",
    "custom_vmap",
    "debug",
    "debug_nans",
    "dual_level",
    "explain",
    "fixed_point",
    "float0",
    "fori_loop",
    "grad",
    "grad_hook",
    "hessian",
    "hessian_diag",
    "hessian_operator",
    "hvp",
    "jacfwd",
    "jacobian",
    "jacrev",
    "jvp",
    "kinks",
    "laplacian",
    "lift",
    "linear_call",
    "linear_transpose",
    "linearize",
    "make_dual",
    "map",
    "no_tangents",
    "numpy",
    "once_differentiable",
    "pmax",
    "pmean",
    "pmin",
    "profile",
    "propagate",
    "psum",
    "read_program",
    "register_dataclass",
    "register_node",
    "residual_hooks",
    "scan",
    "spy",
    "stop_gradient",
    "switch",
    "trace",
    "unpack_dual",
    "value_and_grad",
    "value_and_hessian",
    "value_and_hvp",
    "value_and_jacfwd",
    "value_and_jacrev",
    "vjp",
    "vmap",
    "while_loop",
    "wrap",
]

# What `import dualad` itself does not need: the modules of these names are loaded when one is first asked for.
# Type checkers must not see it: a module that has __getattr__ has every name to them.
if not TYPE_CHECKING:
    __getattr__, __dir__ = load_later(
        __name__,
        {
            "checkpoint": ("checkpoint", "checkpoint_name", "checkpoint_policies"),
            "collectives": ("all_gather", "axis_index", "axis_size", "pmax", "pmean", "pmin", "psum"),
            "control_flow": ("cond", "switch", "while_loop"),
            "custom": ("SymbolicZero", "custom_jvp"),
            "custom_vjp": ("custom_vjp", "once_differentiable"),
            "custom_vmap": ("custom_vmap",),
            "debug": ("debug", "debug_nans"),
            "explain": ("explain",),
            "hooks": ("grad_hook", "no_tangents", "residual_hooks"),
            "implicit": ("custom_root", "fixed_point"),
            "lift": ("lift",),
            "linear_call": ("linear_call",),
            "linear_solve": ("custom_linear_solve",),
            "loops": ("associative_scan", "fori_loop", "map", "scan"),
            "pattern": ("spy",),
            "profiling": ("profile",),
            "program.read": ("read_program",),
            "uncertainty": ("propagate",),
            "wrap": ("wrap",),
        },
        packages=("errors", "scipy", "testing"),
    )
