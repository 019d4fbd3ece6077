"""dualad: forward-mode and batched automatic differentiation of plain NumPy code.

This is the door: the public names. Not for: anything else; whatever has a body lives in a room of its own.
"""

from typing import TYPE_CHECKING

from . import numpy, tree, wiring  # noqa: F401 - the wiring is for what it does
from .base.containers import register_array
from .base.later import load_later
from .base.tree import register_dataclass, register_node
from .base.version import __version__  # noqa: F401 - public, and not for `import *`
from .dual import Dual, dual_level, float0, make_dual, unpack_dual
from .jacobians.hessian import hessian, hessian_diag, hvp, value_and_hessian, value_and_hvp
from .jacobians.jacobian import jacfwd, jacobian, jacrev, value_and_jacfwd, value_and_jacobian, value_and_jacrev
from .jvp import jvp, stop_gradient
from .ops.kinks import kinks
from .transforms.linearize import linearize
from .transforms.trace import eval_shape, make_program, trace
from .vjp_via_transpose import grad, linear_transpose, value_and_grad, vjp
from .vmap import vmap

if TYPE_CHECKING:
    from .annex.collectives import all_gather, axis_index, axis_size, pmax, pmean, pmin, psum
    from .annex.linear_operator import hessian_operator
    from .annex.ravel import ravel_pytree
    from .annex.uncertainty import propagate
    from .compile.jit import jit
    from .compile.threads import threads
    from .control.control_flow import cond, switch, while_loop
    from .control.implicit import custom_root, fixed_point
    from .control.linear_solve import custom_linear_solve
    from .control.loops import associative_scan, fori_loop, map, scan
    from .diagnose.debug import debug, debug_nans
    from .diagnose.explain import explain
    from .diagnose.pattern import spy
    from .diagnose.profiling import profile
    from .lift.by_itself import plain
    from .lift.lift import lift, lifted
    from .memory.allocator import keep_freed_memory
    from .rules.at_equal_values import at_equal_values
    from .rules.checkpoint import checkpoint, checkpoint_name, checkpoint_policies
    from .rules.custom_jvp import SymbolicZero, custom_jvp
    from .rules.custom_vjp import custom_vjp, once_differentiable
    from .rules.custom_vmap import custom_vmap
    from .rules.hooks import grad_hook, no_tangents, residual_hooks
    from .rules.linear_call import linear_call
    from .rules.wrap import wrap
    from .scale.resilient import resilient
    from .series.directional import biharmonic, directional, laplacian
    from .series.jet import jet, nth_derivative, taylor
    from .series.taylor_ivp import taylor_ivp
    from .sparse.coloring import Coloring, color
    from .sparse.derivatives import sparse_hessian, sparse_jacobian, value_and_sparse_hessian, value_and_sparse_jacobian
    from .sparse.detect import hessian_sparsity, jacobian_sparsity
    from .sparse.structure import Sparsity

__all__ = [
    "Coloring", "Dual", "Sparsity", "SymbolicZero", "all_gather", "associative_scan", "at_equal_values", "axis_index",
    "axis_size", "biharmonic", "checkpoint", "checkpoint_name", "checkpoint_policies", "color", "cond", "custom_jvp",
    "custom_linear_solve", "custom_root", "custom_vjp", "custom_vmap", "debug", "debug_nans", "directional",
    "dual_level", "eval_shape", "explain", "fixed_point", "float0", "fori_loop", "grad", "grad_hook", "hessian",
    "hessian_diag", "hessian_operator", "hessian_sparsity", "hvp", "jacfwd", "jacobian", "jacobian_sparsity", "jacrev",
    "jet", "jit", "jvp", "keep_freed_memory", "kinks", "laplacian", "lift", "lifted", "linear_call", "linear_transpose",
    "linearize", "make_dual", "make_program", "map", "no_tangents", "nth_derivative", "numpy", "once_differentiable",
    "plain", "pmax", "pmean", "pmin", "profile", "propagate", "psum", "ravel_pytree", "register_array",
    "register_dataclass", "register_node", "residual_hooks", "resilient", "scan", "sparse_hessian", "sparse_jacobian",
    "spy", "stop_gradient", "switch", "taylor", "taylor_ivp", "threads", "trace", "tree", "unpack_dual",
    "value_and_grad", "value_and_hessian", "value_and_hvp", "value_and_jacfwd", "value_and_jacobian",
    "value_and_jacrev", "value_and_sparse_hessian", "value_and_sparse_jacobian", "vjp", "vmap", "while_loop", "wrap",
]  # fmt: skip

# What `import dualad` itself does not need: the modules of these names are loaded when one is first asked for.
# Type checkers must not see it: a module that has __getattr__ has every name to them.
if not TYPE_CHECKING:
    __getattr__, __dir__ = load_later(
        __name__,
        {
            "annex.collectives": ("all_gather", "axis_index", "axis_size", "pmax", "pmean", "pmin", "psum"),
            "annex.linear_operator": ("hessian_operator",),
            "annex.ravel": ("ravel_pytree",),
            "annex.uncertainty": ("propagate",),
            "compile.jit": ("jit",),
            "compile.threads": ("threads",),
            "control.control_flow": ("cond", "switch", "while_loop"),
            "control.implicit": ("custom_root", "fixed_point"),
            "control.linear_solve": ("custom_linear_solve",),
            "control.loops": ("associative_scan", "fori_loop", "map", "scan"),
            "diagnose.debug": ("debug", "debug_nans"),
            "diagnose.explain": ("explain",),
            "diagnose.pattern": ("spy",),
            "diagnose.profiling": ("profile",),
            "lift.by_itself": ("plain",),
            "lift.lift": ("lift", "lifted"),
            "memory.allocator": ("keep_freed_memory",),
            "rules.at_equal_values": ("at_equal_values",),
            "rules.checkpoint": ("checkpoint", "checkpoint_name", "checkpoint_policies"),
            "rules.custom_jvp": ("SymbolicZero", "custom_jvp"),
            "rules.custom_vjp": ("custom_vjp", "once_differentiable"),
            "rules.custom_vmap": ("custom_vmap",),
            "rules.hooks": ("grad_hook", "no_tangents", "residual_hooks"),
            "rules.linear_call": ("linear_call",),
            "rules.wrap": ("wrap",),
            "scale.resilient": ("resilient",),
            "series.directional": ("biharmonic", "directional", "laplacian"),
            "series.jet": ("jet", "nth_derivative", "taylor"),
            "series.taylor_ivp": ("taylor_ivp",),
            "sparse.coloring": ("Coloring", "color"),
            "sparse.derivatives": (
                "sparse_hessian",
                "sparse_jacobian",
                "value_and_sparse_hessian",
                "value_and_sparse_jacobian",
            ),
            "sparse.detect": ("hessian_sparsity", "jacobian_sparsity"),
            "sparse.structure": ("Sparsity",),
        },
        packages=("errors", "scipy", "testing"),
    )
