"""Sphinx: MyST pages, NumPy docstrings, the furo theme; pages with tables are written by generate.py before reading.

Not for content.
"""

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE)]

import generate  # noqa: E402

import dualad  # noqa: E402

project = "dualad"
author = "the dualad developers"
project_copyright = "2026, the dualad developers"
version = release = dualad.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.intersphinx",
    "sphinx.ext.viewcode",
    "matplotlib.sphinxext.plot_directive",
    "numpydoc",
]
myst_enable_extensions = ["colon_fence", "deflist", "dollarmath", "fieldlist"]
myst_heading_anchors = 3
exclude_patterns = ["design/0001-template.md"]
# A page must build without a network: other projects' inventories are not fetched, their names stay plain text.
intersphinx_mapping: dict = {}
nitpicky = False

autodoc_member_order = "alphabetical"
autodoc_typehints = "none"
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False

plot_include_source = True
plot_html_show_source_link = False
plot_html_show_formats = False
plot_formats = [("svg", 100)]
plot_apply_rcparams = True
plot_pre_code = "import numpy as np\nimport matplotlib.pyplot as plt\nimport dualad as da"
# Read on white and on black: no background, and ink of a middle grey.
plot_rcparams = {
    "figure.figsize": (6.4, 3.2),
    "figure.constrained_layout.use": True,
    "savefig.transparent": True,
    "svg.fonttype": "none",
    **dict.fromkeys(("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color"), "#888888"),
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
}

html_theme = "furo"
html_title = "dualad"
html_show_sourcelink = False


def setup(app):
    """Write the generated pages before Sphinx reads its sources."""
    app.connect("builder-inited", lambda app: generate.write_all(Path(app.srcdir) / "reference" / "generated"))
