"""Programs written for autograd and JAX: what their text becomes, and that it computes the same."""

from __future__ import annotations

import ast
import textwrap

import numpy as np
import pytest

from dualad.cli.migrate import rewrite
from dualad.cli.moved_names import LIBRARIES, Decision
from tests.oracles import jax_side

AUTOGRAD = [
    ("import autograd.numpy as np", "import numpy as np"),
    ("import autograd.numpy.random as npr", "import numpy.random as npr"),
    ("from autograd import numpy as anp, grad", "import numpy as anp\nfrom dualad import grad"),
    ("from autograd import grad, elementwise_grad as egrad  # both",
     "from dualad import grad\nfrom dualad.compat.autograd import elementwise_grad as egrad  # both"),
    ("import autograd.scipy.stats.norm as norm", "from dualad.scipy.stats import norm"),
    ("from autograd.scipy.special import gammaln, expit as s", "from dualad.scipy.special import gammaln, expit as s"),
    ("from autograd.misc import flatten", "from dualad import ravel_pytree as flatten"),
    ("from autograd.misc.optimizers import adam", "from dualad.compat.autograd.misc import adam"),
    ("from autograd.builtins import tuple\nx = tuple([1])", "x = tuple([1])"),
    ("if True:\n    from autograd.builtins import tuple", "if True:\n    pass"),
    ("from autograd.numpy import *", "from numpy import *"),
    ("import autograd\nf = autograd.grad(g, argnum=1)", "import dualad as da\nf = da.grad(g, argnums=1)"),
    ("import autograd as ag\nf = ag.make_vjp(g)",
     "import dualad.compat.autograd\nf = dualad.compat.autograd.make_vjp(g)"),
    ("import autograd\nda = 1\nf = autograd.grad(da)", "import dualad\nda = 1\nf = dualad.grad(da)"),
    ("import autograd.scipy.signal\nc = autograd.scipy.signal.convolve  # ours",
     "import dualad.compat.autograd.signal\nc = dualad.compat.autograd.signal.convolve  # ours"),
    ("import autograd.numpy\ny = autograd.numpy.linalg.norm(x)", "import numpy as np\ny = np.linalg.norm(x)"),
    ("import math; import autograd.numpy as np; x = 1", "import math; import numpy as np; x = 1"),
    ("import os, autograd.numpy as np", "import os\nimport numpy as np"),
    ("from .autograd import grad", "from .autograd import grad"),
    ("import autogradient", "import autogradient"),
    ("from autograd import (  # names\n    grad,\n    jacobian,\n)\n", "from dualad import grad, jacobian\n"),
]  # fmt: skip

JAX = [
    ("import jax.numpy as jnp\ny = jnp.sin(x)  # é\nz = jnp.cos(y)",
     "import numpy as np\ny = np.sin(x)  # é\nz = np.cos(y)"),
    ("é = 'ü'; import jax; f = jax.jit(jax.grad(g))", "é = 'ü'; import dualad as da; f = da.jit(da.grad(g))"),
    ("import numpy as np\nimport jax.numpy as jnp\ny = jnp.sin(np.pi)",
     "import numpy as np\ny = np.sin(np.pi)"),
    ("import jax.numpy as jnp\nnp = 3\ny = jnp.sin(np)", "import numpy as jnp\nnp = 3\ny = jnp.sin(np)"),
    ("from jax import grad, vmap, numpy as jnp\nf = vmap(grad(jnp.sin))",
     "import numpy as np\nfrom dualad import grad, vmap\nf = vmap(grad(np.sin))"),
    ("from jax import lax\ny = lax.scan(f, 0.0, lax.exp(x))",
     "import dualad as da\nimport numpy as np\ny = da.scan(f, 0.0, np.exp(x))"),
    ("import jax\n@jax.custom_jvp\ndef f(x):\n    return x\n",
     "import dualad as da\n@da.custom_jvp\ndef f(x):\n    return x\n"),
    ("from jax.tree_util import tree_map\n", "from optree import tree_map\n"),
    ("import jax\nt = jax.tree.map(f, a, b)", "import optree\nt = optree.tree_map(f, a, b)"),
    ("import jax.scipy as jsp\ny = jsp.special.logsumexp(x)",
     "from dualad import scipy as jsp\ny = jsp.special.logsumexp(x)"),
    ("import jax\ny = jax.jit(f)(x).block_until_ready()", "import dualad as da\ny = da.jit(f)(x)"),
    ("import jax\ndef f(x):\n    x = x.at[0].set(jax.lax.sin(x[1]))  # first\n    return x\n",
     "import numpy as np\ndef f(x):\n    x = x.copy()\n    x[0] = np.sin(x[1])  # first\n    return x\n"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new"), AUTOGRAD)
def test_programs_of_autograd(old, new):
    made = rewrite(old, LIBRARIES["autograd"], "autograd")
    assert made.text == new and made.decisions == []
    assert rewrite(new, LIBRARIES["autograd"], "autograd").text == new, "once is enough"


@pytest.mark.parametrize(("old", "new"), JAX)
def test_programs_of_jax(old, new):
    made = rewrite(old, LIBRARIES["jax"], "jax")
    assert made.text == new and made.decisions == []


UNDECIDED = [
    ("autograd", "from autograd.extend import Box, primitive\n", 1, "register_node"),
    ("autograd", "import autograd.numpy as np\ny = np.make_diagonal(x)\n", 2, "np.eye"),
    ("jax", "import jax\nkey = jax.random.PRNGKey(0)\n", 2, "default_rng"),
    ("jax", "from jax import random\nkey = random.PRNGKey(0)\n", 2, "default_rng"),
    ("jax", "import jax\nf = jax.grad(jax.nn.relu)\n", 2, "maximum"),
    ("jax", "def f(x):\n    return x.at[0].set(1.0)\n", 2, "x.copy()"),
    ("jax", "import jax.numpy as jnp\ny = jnp.unheard_of(x)\n", 2, "NumPy has no unheard_of"),
    ("jax", "if a:\n    pass\nelif (b and\n      jax.nope(c)):\n    pass\nimport jax\n", 4, "no such name"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "text", "line", "words"), UNDECIDED)
def test_what_a_human_must_decide_gets_a_comment_above_its_statement(name, text, line, words):
    made = rewrite(text, LIBRARIES[name], name)
    assert any(at == line and words in said for at, said in made.decisions)
    lines = made.text.splitlines()
    comments = [i for i, code in enumerate(lines) if code.lstrip().startswith("# dualad: ") and words in code]
    assert comments
    ast.parse(made.text)
    again = rewrite(made.text, LIBRARIES[name], name)
    assert again.text == made.text, "comments are not written twice"


SHARED = """
import jax
import jax.numpy as jnp
from jax import lax


def rates(y, k):
    out = 0.0 * (y + k)
    out = out.at[0].set(-k[0] * y[0])
    out = out.at[jnp.array([1, 1])].add(jnp.sin(y[1]) * k[1])
    out = out.at[2].max(lax.max(y[2], k[2]))
    out = out.at[1:].multiply(k[1:])
    return out


def loss(params, x):
    h = jnp.tanh(params["w"] @ x)
    def step(carry, t):
        carry = carry + jnp.sum(rates(h, t * jnp.ones(3)))
        return carry, carry
    total, path = lax.scan(step, 0.0, jnp.arange(3.0))
    return lax.cond(total > 100.0, lambda v: v * 2, lambda v: v, total) + jax.scipy.special.logsumexp(path)


params = {"w": jnp.arange(9.0).reshape(3, 3) / 10}
x = jnp.array([0.3, -0.2, 0.9])
found = [loss(params, x), jax.grad(loss)(params, x)["w"], jax.hessian(loss, argnums=1)(params, x),
         jax.vmap(lambda s: rates(x, s * x))(jnp.arange(2.0)), jax.jvp(lambda x: rates(x, x), (x,), (x,))[1],
         jax.tree_util.tree_leaves(jax.tree.map(lambda a, b: a + b, params, params))[0]]
"""


def test_a_program_of_jax_computes_the_same_when_it_has_moved():
    jax = jax_side.jax  # which compiles without optimizing
    theirs: dict = {}
    with jax.enable_x64(True):
        exec(SHARED, theirs)
    made = rewrite(SHARED, LIBRARIES["jax"], "jax")
    assert made.decisions == [] and "jax" not in made.text and "jnp" not in made.text
    ours: dict = {}
    exec(made.text, ours)
    for a, b in zip(ours["found"], theirs["found"], strict=True):
        np.testing.assert_allclose(a, np.asarray(b), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("name", list(LIBRARIES))
def test_every_new_name_exists(name):
    import importlib

    for old, new in LIBRARIES[name].names.items():
        assert old.split(".")[0] == name
        if isinstance(new, Decision):
            assert new.words
            continue
        module, _, last = new.rpartition(".")
        try:
            importlib.import_module(new)
        except ImportError:
            assert hasattr(importlib.import_module(module or "builtins"), last), f"{old} -> {new}"


def test_layout_and_comments_survive():
    text = textwrap.dedent(
        '''
        #!/usr/bin/env python
        """A model."""
        import autograd.numpy as np   # wrapped
        from   autograd   import   grad  # g

        def f( x ):
            # a comment
            return np.sum( x ** 2 )\t# odd  layout
        g = grad( f ,argnum = 0 )
        '''
    )
    made = rewrite(text, LIBRARIES["autograd"], "autograd").text
    kept = text.replace("autograd.numpy", "numpy").replace("from   autograd   import   grad", "from dualad import grad")
    assert made == kept.replace("argnum", "argnums")
    windows = text.replace("\n", "\r\n")
    assert rewrite(windows, LIBRARIES["autograd"], "autograd").text == made.replace("\n", "\r\n")
