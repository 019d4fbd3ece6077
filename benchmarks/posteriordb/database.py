"""A clone of posteriordb: its posteriors, their data and reference draws, and the models written here by name.

Not for: checks, which `checks` makes, nor times.
"""

import importlib
import json
import sys
import types
import zipfile
from pathlib import Path

import numpy as np

from .model import Model

__all__ = ["FAMILIES", "Posterior", "models", "posteriors", "with_jax"]

FAMILIES = ("regressions", "logistic", "hierarchical", "capture", "items", "mixtures", "series", "processes")


def models(package=__package__):
    """Return the models of all families by name."""
    found = {}
    for family in FAMILIES:
        module = importlib.import_module(f"{package}.{family}")
        found |= {m.name: m for m in vars(module).values() if isinstance(m, Model)}
    return found


_SWAPS = (
    ("import numpy as np", "import jax.numpy as np"),
    ("from scipy import", "from jax.scipy import"),
    ("import scipy.special._ufuncs as sp", "import jax.scipy.special as sp"),
    ("dualad.scipy.stats.constraints", "posteriordb_with_jax.constraints"),
)


def with_jax():
    """Return the models of the same text with JAX's modules for NumPy's and SciPy's, from a package made of it."""
    import jax

    import dualad.scipy.stats.constraints

    jax.config.update("jax_enable_x64", True)
    package = types.ModuleType("posteriordb_with_jax")
    package.__path__ = []
    sys.modules[package.__name__] = package
    here = Path(__file__).parent
    texts = {"constraints": Path(dualad.scipy.stats.constraints.__file__).read_text()}
    texts |= {name: (here / f"{name}.py").read_text() for name in ("densities", *FAMILIES)}
    sys.modules[f"{package.__name__}.model"] = sys.modules[f"{__package__}.model"]
    for name, text in texts.items():
        for old, new in _SWAPS:
            text = text.replace(old, new)
        module = types.ModuleType(f"{package.__name__}.{name}")
        module.__package__ = package.__name__
        sys.modules[module.__name__] = module
        exec(compile(text, module.__name__, "exec"), module.__dict__)
    return models(package.__name__)


def _read(path):
    with zipfile.ZipFile(path) as archive:
        return json.loads(archive.read(archive.namelist()[0]))


class Posterior:
    """A posterior of the database: its name, its model's, and where its data and draws lie."""

    def __init__(self, root, entry):
        self.name, self.model = entry["name"], entry["model_name"]
        self.data_path = root / "data" / "data" / f"{entry['data_name']}.json.zip"
        self.stan_path = root / "models" / "stan" / f"{self.model}.stan"
        self._draws = entry.get("reference_posterior_name")
        self._root = root

    def data(self):
        """Return the data: lists as arrays, numbers as they are."""
        entries = _read(self.data_path)
        return types.SimpleNamespace(**{k: np.array(v) if isinstance(v, list) else v for k, v in entries.items()})

    def draws(self):
        """Return the reference draws by name of parameter, draw by draw in the first axis; ``None`` if it has none."""
        path = self._root / "reference_posteriors" / "draws" / "draws" / f"{self._draws}.json.zip"
        if self._draws is None or not path.exists():
            return None
        chains = _read(path)
        columns = {name: np.concatenate([chain[name] for chain in chains]) for name in chains[0]}
        groups = {}
        for name, values in columns.items():
            groups.setdefault(name.split("[")[0], []).append(values)
        return {
            name: np.stack(values, axis=1) if f"{name}[1]" in columns else values[0] for name, values in groups.items()
        }


def posteriors(clone, names=()):
    """Return the posteriors of a clone of the database, those whose names contain one of ``names``."""
    root = Path(clone) / "posterior_database"
    found = [Posterior(root, json.loads(path.read_text())) for path in sorted((root / "posteriors").glob("*.json"))]
    return [p for p in found if not names or any(name in p.name for name in names)]
