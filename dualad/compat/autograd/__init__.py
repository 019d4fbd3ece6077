"""autograd's names with autograd's meanings, computed by dualad: ``import dualad.compat.autograd``.

``install()`` lets a package that says ``import autograd`` run as it is; ``from dualad.compat.autograd import
elementwise_grad, make_vjp`` is for code that has moved and keeps one of its idioms.
Not for: new code, which has the same in ``dualad`` itself and plain NumPy.
"""

from .differential_operators import *
from .modules import install, installed, uninstall

__all__ = [
    "checkpoint", "deriv", "elementwise_grad", "grad", "grad_and_aux", "grad_named", "hessian",
    "hessian_tensor_product", "hessian_vector_product", "holomorphic_grad", "install", "installed", "jacobian",
    "make_ggnvp", "make_hvp", "make_jvp", "make_jvp_reversemode", "make_vjp", "multigrad_dict",
    "tensor_jacobian_product", "uninstall", "value_and_grad", "vector_jacobian_product",
]  # fmt: skip
