"""dualad: forward-mode and batched automatic differentiation of plain NumPy code.

This is the door: the public names. Not for: anything else; whatever has a body lives in a room of its own.
"""

from . import numpy
from .checkpoint import checkpoint, checkpoint_name, checkpoint_policies
from .custom import SymbolicZero, custom_jvp
from .custom_vjp import custom_vjp, once_differentiable
from .custom_vmap import custom_vmap
from .debug import debug
from .dual import Dual, dual_level, float0, make_dual, unpack_dual
from .hooks import grad_hook, no_tangents, residual_hooks
from .jacobian import hessian, hvp, jacfwd, jacrev
from .jvp import jvp, stop_gradient
from .lift import lift
from .linear_call import linear_call
from .linearize import linearize
from .ops.kinks import kinks
from .program.read import read_program
from .trace import trace
from .tree import register_dataclass, register_node
from .vjp_via_transpose import grad, linear_transpose, value_and_grad, vjp
from .vmap import vmap
from .wrap import wrap

__version__ = "0.1.0"

__all__ = [
    "Dual",
    "SymbolicZero",
    "checkpoint",
    "checkpoint_name",
    "checkpoint_policies",
    "custom_jvp",
    "custom_vjp",
    "custom_vmap",
    "debug",
    "dual_level",
    "float0",
    "grad",
    "grad_hook",
    "hessian",
    "hvp",
    "jacfwd",
    "jacrev",
    "jvp",
    "lift",
    "kinks",
    "linear_call",
    "linear_transpose",
    "linearize",
    "make_dual",
    "no_tangents",
    "numpy",
    "once_differentiable",
    "read_program",
    "register_dataclass",
    "register_node",
    "residual_hooks",
    "stop_gradient",
    "trace",
    "unpack_dual",
    "value_and_grad",
    "vjp",
    "vmap",
    "wrap",
]
