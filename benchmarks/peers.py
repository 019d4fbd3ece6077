"""The peers, each behind the same few verbs, so that a row can say "jvp of this function" once.

A benchmark writes its function against a namespace, ``f(np, x, ...)``, and a peer binds its own: `jax.numpy`,
`autograd.numpy`, a few names of `torch`, or NumPy itself for dualad, whose users write nothing else. A verb returns a
callable without arguments that finishes its work before it returns (JAX is waited for).

Not here: which work is measured, and how it is timed.
"""

import functools
import importlib

import numpy as np

__all__ = ["Dualad", "peers"]


class Dualad:
    """This library, on plain NumPy."""

    name = "dualad"

    def __init__(self):
        self.lib = importlib.import_module("dualad")

    def jvp(self, f, x, v):
        g = functools.partial(f, np)
        return lambda: self.lib.jvp(g, (x,), (v,))[1]

    def vjp(self, f, x, ct):
        g = functools.partial(f, np)
        return lambda: self.lib.vjp(g, x)[1](ct)[0]

    def grad(self, f, *args):
        return self._call(self.lib.grad(functools.partial(f, np)), args)

    def hessian(self, f, x):
        return self._call(self.lib.hessian(functools.partial(f, np)), (x,))

    def jacfwd(self, f, x):
        return self._call(self.lib.jacfwd(functools.partial(f, np)), (x,))

    def jacrev(self, f, x):
        return self._call(self.lib.jacrev(functools.partial(f, np)), (x,))

    def per_example(self, f, params, *batch):
        axes = (None,) + (0,) * len(batch)
        return self._call(self.lib.vmap(self.lib.grad(functools.partial(f, np)), in_axes=axes), (params, *batch))

    @staticmethod
    def _call(transformed, args):
        return lambda: transformed(*args)


class DualadJit(Dualad):
    """This library under its `jit`; the compile time is in the column of first calls."""

    name = "dualad jit"

    def jvp(self, f, x, v):
        g = functools.partial(f, np)
        return self._call(lambda x, v: self.lib.jvp(g, (x,), (v,))[1], (x, v))

    def vjp(self, f, x, ct):
        g = functools.partial(f, np)
        return self._call(lambda x, ct: self.lib.vjp(g, x)[1](ct)[0], (x, ct))

    def _call(self, transformed, args):
        fast = self.lib.jit(transformed)
        return lambda: fast(*args)


class Autograd:
    """HIPS autograd: NumPy wrapped, reverse mode by hand-written vjps, forward mode by hand-written jvps."""

    name = "autograd"

    def __init__(self):
        self.lib = importlib.import_module("autograd")
        self.np = importlib.import_module("autograd.numpy")

    def jvp(self, f, x, v):
        g = functools.partial(f, self.np)
        return lambda: self.lib.make_jvp(g)(x)(v)[1]

    def vjp(self, f, x, ct):
        g = functools.partial(f, self.np)
        return lambda: self.lib.make_vjp(g)(x)[0](ct)

    def grad(self, f, *args):
        gradient = self.lib.grad(functools.partial(f, self.np))
        return lambda: gradient(*args)

    def hessian(self, f, x):
        hessian = self.lib.hessian(functools.partial(f, self.np))
        return lambda: hessian(x)

    def jacfwd(self, f, x):
        # autograd has no vectorized forward Jacobian: one jvp a column.
        push = self.lib.make_jvp(functools.partial(f, self.np))
        basis = np.eye(x.size)
        return lambda: np.stack([push(x)(e)[1] for e in basis], axis=-1)

    def jacrev(self, f, x):
        jacobian = self.lib.jacobian(functools.partial(f, self.np))
        return lambda: jacobian(x)

    def per_example(self, f, params, *batch):
        # autograd has no vmap: one gradient an example.
        gradient = self.lib.grad(functools.partial(f, self.np))

        def call():
            rows = [gradient(params, *row) for row in zip(*batch, strict=True)]
            return [np.stack(parts) for parts in zip(*rows, strict=True)]

        return call


class Jax:
    """JAX without `jit`: each operation is dispatched to XLA as it comes."""

    name = "JAX eager"

    def __init__(self):
        self.lib = importlib.import_module("jax")
        self.lib.config.update("jax_enable_x64", True)
        self.np = importlib.import_module("jax.numpy")

    def _ready(self, transformed, *args):
        args = self.lib.tree_util.tree_map(self.np.asarray, args)
        return lambda: self.lib.block_until_ready(transformed(*args))

    def jvp(self, f, x, v):
        g = functools.partial(f, self.np)
        return self._ready(lambda x, v: self.lib.jvp(g, (x,), (v,))[1], x, v)

    def vjp(self, f, x, ct):
        g = functools.partial(f, self.np)
        return self._ready(lambda x, ct: self.lib.vjp(g, x)[1](ct)[0], x, ct)

    def grad(self, f, *args):
        return self._ready(self.lib.grad(functools.partial(f, self.np)), *args)

    def hessian(self, f, x):
        return self._ready(self.lib.hessian(functools.partial(f, self.np)), x)

    def jacfwd(self, f, x):
        return self._ready(self.lib.jacfwd(functools.partial(f, self.np)), x)

    def jacrev(self, f, x):
        return self._ready(self.lib.jacrev(functools.partial(f, self.np)), x)

    def per_example(self, f, params, *batch):
        axes = (None,) + (0,) * len(batch)
        return self._ready(self.lib.vmap(self.lib.grad(functools.partial(f, self.np)), axes), params, *batch)


class JaxJit(Jax):
    """JAX under `jit`; its compile time is in the column of first calls, not in the medians."""

    name = "JAX jit"

    def _ready(self, transformed, *args):
        return super()._ready(self.lib.jit(transformed), *args)


class _TorchNames:
    """The handful of NumPy names that the benchmarks use, as torch spells them."""

    def __init__(self, torch):
        for name in ("sin", "cos", "tanh", "exp", "log", "sum", "mean"):
            setattr(self, name, getattr(torch, name))
        self.asarray = torch.as_tensor


class Torch:
    """torch.func on CPU, eager, in float64."""

    name = "torch.func"

    def __init__(self):
        self.torch = importlib.import_module("torch")
        self.lib = importlib.import_module("torch.func")
        self.np = _TorchNames(self.torch)

    def _call(self, transformed, *args):
        args = self._tensors(args)
        return lambda: transformed(*args)

    def _tensors(self, tree):
        if isinstance(tree, (tuple, list)):
            return type(tree)(self._tensors(part) for part in tree)
        return self.torch.as_tensor(np.asarray(tree))

    def jvp(self, f, x, v):
        g = functools.partial(f, self.np)
        return self._call(lambda x, v: self.lib.jvp(g, (x,), (v,))[1], x, v)

    def vjp(self, f, x, ct):
        g = functools.partial(f, self.np)
        return self._call(lambda x, ct: self.lib.vjp(g, x)[1](ct)[0], x, ct)

    def grad(self, f, *args):
        return self._call(self.lib.grad(functools.partial(f, self.np)), *args)

    def hessian(self, f, x):
        return self._call(self.lib.hessian(functools.partial(f, self.np)), x)

    def jacfwd(self, f, x):
        return self._call(self.lib.jacfwd(functools.partial(f, self.np)), x)

    def jacrev(self, f, x):
        return self._call(self.lib.jacrev(functools.partial(f, self.np)), x)

    def per_example(self, f, params, *batch):
        axes = (None,) + (0,) * len(batch)
        return self._call(self.lib.vmap(self.lib.grad(functools.partial(f, self.np)), in_dims=axes), params, *batch)


class _CasadiNames:
    """The handful of NumPy names that the benchmarks use, as CasADi spells them."""

    def __init__(self, casadi):
        for name in ("sin", "cos", "tanh", "exp", "log"):
            setattr(self, name, getattr(casadi, name))
        self.sum = casadi.sum1
        self.asarray = casadi.DM


class Casadi:
    """CasADi: the graph of scalar operations is built and differentiated once, and then evaluated by its interpreter.

    Only for functions of one vector: its values are matrices.
    """

    name = "CasADi"

    def __init__(self):
        self.lib = importlib.import_module("casadi")
        self.np = _CasadiNames(self.lib)

    def _compiled(self, of, f, x, *others):
        """``of(symbols of x and of others, f of the first)`` as a call that returns an array."""
        symbols = [self.lib.SX.sym(name, np.size(value)) for name, value in zip("xv", (x, *others), strict=False)]
        function = self.lib.Function("f", symbols, [self.lib.densify(of(*symbols, f(self.np, symbols[0])))])
        return lambda: function(x, *others).full().squeeze()

    def jvp(self, f, x, v):
        return self._compiled(lambda x, v, y: self.lib.jtimes(y, x, v), f, x, v)

    def vjp(self, f, x, ct):
        return self._compiled(lambda x, ct, y: self.lib.jtimes(y, x, ct, True), f, x, ct)

    def grad(self, f, x):
        return self._compiled(lambda x, y: self.lib.gradient(y, x), f, x)

    def hessian(self, f, x):
        return self._compiled(lambda x, y: self.lib.hessian(y, x)[0], f, x)


ALL = (Dualad, DualadJit, Autograd, Jax, JaxJit, Torch)


def peers(verb, f, *args, of_one_vector=False):
    """Contenders for ``verb`` of `f` at `args`: this library first, then the peers."""

    def build(peer):
        return lambda: getattr(peer(), verb)(f, *args)

    return {peer.name: build(peer) for peer in (*ALL, *([Casadi] if of_one_vector else []))}
