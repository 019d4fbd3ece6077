"""Derivatives where something is special: ties, zeros, poles, ends of ranges, empty axes and axes of one entry.

Short programs of NumPy calls whose inputs are taken from a few numbers, so that ties and zeros are the rule. For: zeros
that stay strong, NaN for numbers, exceptions of compiled derivatives. Not for: values of NumPy's functions over dtypes
and layouts (``numpy_calls.py``).
"""

from __future__ import annotations

import numpy as np

from .cases import Case
from .compare import source_case

__all__ = ["case"]

_SHAPES = [(), (1,), (3,), (4,), (0,), (2, 0), (0, 3), (1, 3), (2, 3), (3, 1), (2, 2), (1, 1), (2, 1, 2)]
_NUMBERS = [0.0, 0.0, 1.0, 1.0, -1.0, 2.0, 0.5, -0.5, -2.0, 3.0]


def _forms(text: str) -> list[str]:
    return text.split()


_ENTRYWISE = _forms("""
    np.abs({}) np.sqrt(np.abs({})) np.log(np.abs({})) np.exp({}) np.sin({}) {}**2 {}**0.5 np.sign({}) {}**3
    np.maximum({},0.0) np.minimum({},1.0) np.clip({},-1.0,1.0) np.where({}>0,np.sqrt(np.where({}>0,{},1.0)),0.0)
    np.where({}>0,np.sqrt({}),0.0) np.where({}==0,0.0,1.0/{}) np.where({}!=0,np.log(np.abs({})),{}) np.floor({})
    np.tanh({}) np.hypot({},0.0) np.arctan2({},0.0) np.power(np.abs({}),{}) {}*np.abs({}) np.logaddexp({},{}) 1.0/{}
    np.arcsin({}) np.sinc({}) np.arccosh({}) np.log1p({}) np.cbrt({}) np.square({}) np.reciprocal({})
    np.nan_to_num(1.0/{}) np.sqrt({}) np.heaviside({},0.5) np.float_power(np.abs({}),1.5) np.copysign(1.0,{})*{}
    np.fmax({},0.0) np.fmin({},{}) np.mod({},1.5) np.where(np.isnan({}),0.0,{})
""")
_PAIRS = _forms("""
    np.maximum({},{}) np.minimum({},{}) {}*{} {}/{} {}-{} {}+{} np.hypot({},{}) np.arctan2({},{})
    np.where({}>{},{},{}) np.power(np.abs({}),{}) np.fmod({},{}) np.logaddexp({},{}) np.copysign({},{})
    np.where({}==0,{},{})
""")
_ALONG = _forms("""
    np.sum({},{}) np.prod({},{}) np.cumsum({},{}) np.cumprod({},{}) np.sort({},{}) np.flip({},{}) np.mean({},{})
    np.linalg.norm({},axis={}) np.max({},{},initial=-3.0) np.min({},{},initial=3.0) np.diff({},axis={})
    np.roll({},1,{}) np.maximum.accumulate({},{}) np.logaddexp.reduce({},{}) np.var({},{})
    np.sum({},{},keepdims=True) np.prod({},{},keepdims=True) np.concatenate([{},{}],{}) np.nansum({},{})
    np.repeat({},2,{})
""")
#: of axes with entries only: elsewhere NumPy raises or warns
_WITH_ENTRIES = _forms("""
    np.max({},{}) np.min({},{}) np.median({},{}) np.std({},{}) np.ptp({},{}) np.average({},{})
    np.percentile({},50,{}) np.max({},{},keepdims=True) np.linalg.norm({},np.inf,{}) np.take({},[0,0,-1],{})
    np.std({},{},keepdims=True) np.take_along_axis({},np.argsort({},{}),{})
""")
_WHOLE = _forms("""
    np.sum({}) np.linalg.norm(np.ravel({})) np.prod({}) {}.reshape(-1) {}.T {}*np.sum({}) np.outer({},{})
    {}[...,None] np.squeeze({}) np.ravel({})@np.ravel({}) np.append({},0.0) np.tile({},2) np.atleast_2d({})
    np.broadcast_to({},(2,*np.shape({}))) np.pad({},1) np.stack([{},{}]) np.einsum("...,...->",{},{})
    np.zeros_like({}) np.ediff1d({}) np.trace(np.atleast_2d({}))
""")


class _Writer:
    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng([23, seed])

    def choice(self, items):
        return items[int(self.rng.integers(len(items)))]

    def numbers(self, shape: tuple) -> np.ndarray:
        if self.rng.random() < 0.25:
            return np.full(shape, self.choice(_NUMBERS))
        return self.rng.choice(_NUMBERS, shape)

    def step(self, name: str, other: str, x: np.ndarray) -> str:
        """Return an expression of what is there, chosen for its shape."""
        roll = self.rng.random()
        if roll < 0.35:
            form = self.choice(_ENTRYWISE)
            return form.format(*[name] * form.count("{}"))
        if roll < 0.5:
            form = self.choice(_PAIRS)
            return form.format(*[self.choice([name, other]) for _ in range(form.count("{}"))])
        if roll < 0.6:
            form = self.choice(_WHOLE)
            return form.format(*[name] * form.count("{}"))
        if not x.ndim:
            return f"np.append({name}, {other})"
        axis = int(self.rng.integers(-x.ndim, x.ndim))
        if roll < 0.7 and x.shape[axis] and x.ndim == 1:
            places = self.rng.integers(0, x.shape[0], int(self.choice([0, 1, 2, 5]))).tolist()
            return self.choice([
                f"{name}[np.array({places}, dtype=int)]", f"np.take({name}, {places[:1] * 2 or [0]})",
                f"{name}[::-1]", f"{name}[1:]",
                f"np.bincount(np.array({[p % 2 for p in places]}, dtype=int), minlength=2) * np.sum({name})",
            ])  # fmt: skip
        form = self.choice([*_ALONG, *_WITH_ENTRIES] if x.shape[axis] and x.size else _ALONG)
        count = form.count("{}")
        if "take_along" in form:
            return form.format(name, name, axis, axis)
        return form.format(*[name] * (count - 1), axis)

    def text(self) -> str | None:
        shape = self.choice(_SHAPES)
        x, y = self.numbers(shape), self.numbers(self.choice([shape, shape, shape[-1:], ()]))
        space = {"np": np, "x": x, "y": y}
        lines, name = [], "x"
        for k in range(int(self.choice([1, 2, 2, 3]))):
            text = self.step(name, self.choice(["y", "x", name]), np.asarray(space[name]))
            target = f"u{k}"
            with np.errstate(all="ignore"):
                try:
                    space[target] = eval(text, dict(space))
                except Exception:
                    continue  # no program
            if np.size(space[target]) > 60 or np.asarray(space[target]).dtype.kind != "f":
                continue
            lines.append(f"    {target} = {text}")
            name = target
        if not lines:
            return None
        made = lambda a: f"np.array({np.asarray(a).tolist()}, dtype=float).reshape({np.shape(a)})"
        return "\n".join([
            "import numpy as np, dualad as da", f"args = ({made(x)}, {made(y)})",
            "def f(x, y):", *lines, f"    return {name}", "",
        ])  # fmt: skip


def case(seed: int) -> Case:
    text, more = None, 0
    while text is None:
        text, more = _Writer(1000 * seed + more).text(), more + 1
    ways = ("value", *("grad", "jacfwd", "jacrev", "hessian", "vmap", "vmap of grad", "jvp")[seed % 2 :: 2])
    return source_case(f"derivatives {seed}", text, ways, native=seed % 3 == 0)
