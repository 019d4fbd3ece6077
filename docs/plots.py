"""Directives of these pages: a block of code, shown, and what it draws.

``plot`` shows the figure; matplotlib's own directive needs reStructuredText. ``notebook`` shows what a notebook would
of the block's last line: a program, a linear map, a pattern. Not for content.
"""

import ast
import io

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
from docutils import nodes
from sphinx.util.docutils import SphinxDirective

import dualad

# Read on white and on black: no background, and ink of a middle grey.
STYLE = {
    "figure.figsize": (6.4, 3.2),
    "figure.constrained_layout.use": True,
    "savefig.transparent": True,
    "svg.fonttype": "none",
    "svg.hashsalt": "dualad",
    "font.family": "sans-serif",
    **dict.fromkeys(("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color"), "#888888"),
    "axes.facecolor": "none",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
}


class Plot(SphinxDirective):
    """Show a block of code and the figure it draws; each block is a program of its own with np, plt and da."""

    has_content = True

    def run(self):
        code = "\n".join(self.content)
        shown = nodes.literal_block(code, code, language="python")
        with mpl.rc_context(STYLE):
            exec(compile(code, self.env.docname, "exec"), {"np": np, "plt": plt, "da": dualad})
            drawn = io.StringIO()
            plt.savefig(drawn, format="svg", metadata={"Date": None})
            plt.close("all")
        svg = drawn.getvalue()
        svg = svg[svg.index("<svg") :].replace("<svg ", '<svg style="max-width:100%;height:auto" ', 1)
        return [shown, nodes.raw("", svg, format="html")]


def run_notebook(code, name, namespace):
    """Run a block and return the HTML of its last line, which is an expression."""
    tree = ast.parse(code, name)
    last = ast.Expression(tree.body.pop().value)
    exec(compile(tree, name, "exec"), namespace)
    return eval(compile(last, name, "eval"), namespace)._repr_html_()


class Notebook(SphinxDirective):
    """Show a block of code and what a notebook shows of it; each block is a program of its own with np and da."""

    has_content = True

    def run(self):
        code = "\n".join(self.content)
        html = run_notebook(code, self.env.docname, {"np": np, "da": dualad, "__name__": "page"})
        return [nodes.literal_block(code, code, language="python"), nodes.raw("", html, format="html")]


def setup(app):
    mpl.use("svg")
    app.add_directive("plot", Plot)
    app.add_directive("notebook", Notebook)
    return {"parallel_read_safe": False}
