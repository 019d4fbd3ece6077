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
    "numpydoc",
    "plots",
    "sphinx-mathjax-offline",
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

html_theme = "furo"
html_title = "dualad"
html_static_path = ["_static"]
html_css_files = ["wide.css"]
html_extra_path = ["llms.txt"]
html_show_sourcelink = False


def setup(app):
    """Write the generated pages before Sphinx reads its sources."""
    app.connect("builder-inited", lambda app: generate.write_all(Path(app.srcdir) / "reference" / "generated"))
