"""Directives of these pages: a block of code, shown, and what it draws.

``plot`` shows the figure, with a text for readers who can't see it; matplotlib's own directive needs reStructuredText.
``gallery`` shows the first figure of each page that it names, as a link to the page. ``notebook`` shows what a notebook
would of the block's last line: a program, a linear map, a pattern. Not for content.
"""

import ast
import contextlib
import html
import io
import posixpath

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.util.docutils import SphinxDirective

import dualad

# Read on white and on black: no background, and ink of a middle grey.
STYLE = {
    "figure.figsize": (6.4, 3.2),
    "figure.constrained_layout.use": True,
    "savefig.transparent": True,
    "savefig.dpi": 200,  # of what is rasterized: thousands of points
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
    option_spec = {"alt": directives.unchanged_required}

    def run(self):
        code = "\n".join(self.content)
        shown = nodes.literal_block(code, code, language="python")
        with mpl.rc_context(STYLE), contextlib.redirect_stdout(io.StringIO()) as printed:
            exec(compile(code, self.env.docname, "exec"), {"np": np, "plt": plt, "da": dualad})
            drawn = io.StringIO()
            plt.savefig(drawn, format="svg", metadata={"Date": None})
            plt.close("all")
        alt = html.escape(self.options["alt"], quote=True)
        head = f'<svg role="img" aria-label="{alt}" style="max-width:100%;height:auto" '
        svg = drawn.getvalue()
        svg = svg[svg.index("<svg") :].replace("<svg ", head, 1)
        vars(self.env).setdefault("pictures", {}).setdefault(self.env.docname, svg)
        said = [nodes.literal_block(text, text, language="text")] if (text := printed.getvalue().rstrip()) else []
        return [shown, *said, nodes.raw("", svg, format="html")]


class Pictures(nodes.General, nodes.Element):
    """Where a gallery will stand when every page has been read."""


class Gallery(SphinxDirective):
    """Show pages by their first figures; each line names one, relative to this page."""

    has_content = True

    def run(self):
        folder = self.env.docname.rpartition("/")[0]
        return [Pictures(pages=[posixpath.normpath(posixpath.join(folder, line)) for line in self.content])]


def hang_pictures(app, doctree, docname):
    """Put the figures of other pages into the galleries of one."""
    for place in list(doctree.findall(Pictures)):
        items = []
        for page in place["pages"]:
            uri = app.builder.get_relative_uri(docname, page)
            title = html.escape(app.env.titles[page].astext())
            items.append(f'<a href="{uri}">{app.env.pictures[page]}<span>{title}</span></a>')
        place.replace_self(nodes.raw("", f'<div class="gallery">{"".join(items)}</div>', format="html"))


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
        shown = run_notebook(code, self.env.docname, {"np": np, "da": dualad, "__name__": "page"})
        return [nodes.literal_block(code, code, language="python"), nodes.raw("", shown, format="html")]


def setup(app):
    mpl.use("svg")
    app.add_directive("plot", Plot)
    app.add_directive("notebook", Notebook)
    app.add_directive("gallery", Gallery)
    app.add_node(Pictures)
    app.connect("doctree-resolved", hang_pictures)
    return {"parallel_read_safe": False}
