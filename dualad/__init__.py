"""dualad: forward-mode and batched automatic differentiation of plain NumPy code.

This is the door: the public names. Not for: anything else; whatever has a body lives in a room of its own.
"""

from .custom import SymbolicZero, custom_jvp
from .custom_vjp import custom_vjp, once_differentiable
from .custom_vmap import custom_vmap
from .dual import Dual, dual_level, float0, make_dual, unpack_dual
from .jacobian import hessian, hvp, jacfwd, jacrev
from .jvp import jvp, stop_gradient
from .linear_call import linear_call
from .linearize import linearize
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
    "custom_jvp",
    "custom_vjp",
    "custom_vmap",
    "dual_level",
    "float0",
    "grad",
    "hessian",
    "hvp",
    "jacfwd",
    "jacrev",
    "jvp",
    "linear_call",
    "linear_transpose",
    "linearize",
    "make_dual",
    "once_differentiable",
    "read_program",
    "register_dataclass",
    "register_node",
    "stop_gradient",
    "trace",
    "unpack_dual",
    "value_and_grad",
    "vjp",
    "vmap",
    "wrap",
]
