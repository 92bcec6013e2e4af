"""Settings of the site; `make docs` builds it."""

from typing import Any

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError
from sphinx.ext.napoleon import Config, GoogleDocstring

from shuffledp.version import __version__

project = "shuffledp"
author = "shuffledp contributors"
project_copyright = author
version = release = __version__
html_title = "shuffledp"
html_theme = "furo"
html_static_path = ["static"]
html_extra_path = ["pages"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False
extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.viewcode", "sphinx_copybutton"]
myst_enable_extensions = ["dollarmath", "amsmath", "colon_fence", "attrs_inline"]
html_math_renderer = "mathml"
viewcode_line_numbers = True
exclude_patterns = ["schema/*"]
myst_heading_anchors = 4
nb_execution_mode = "off"  # notebooks are stored with their outputs: `make notebooks`
default_role = "code"
autodoc_default_options = {"members": True, "member-order": "bysource"}
autodoc_typehints_format = "short"
python_use_unqualified_type_names = True
python_display_short_literal_types = True
SECTIONS = Config(napoleon_use_param=False, napoleon_use_rtype=False)


def read_sections(
    app: Sphinx, what: str, name: str, thing: object, options: Any, lines: list[str]
) -> None:
    """Turns `Args:` and `Returns:` of functions and classes into lists. (Sphinx's own extension
    also takes a colon in an attribute's sentence for the end of a type.)"""
    if what not in ("attribute", "property"):
        lines[:] = GoogleDocstring(lines, SECTIONS, app, what, name, thing, options).lines()


def mathml(tex: str, *, display: bool) -> str:
    """A formula as MathML, which browsers show without a script."""
    try:
        made = tex2mathml(tex, as_block=display)
    except MathError as error:
        raise ExtensionError(f"The formula {tex!r} cannot be read: {error}") from None
    return made.replace("&ApplyFunction;", "&#x2061;")


def inline_formula(page: Any, node: nodes.math) -> None:
    """Writes a formula inside a line."""
    page.body.append(mathml(node.astext(), display=False))
    raise nodes.SkipNode


def formula_block(page: Any, node: nodes.math_block) -> None:
    """Writes a formula on separate lines."""
    tex = node.astext()
    page.body.append(f'<div class="formula" tabindex="0">{mathml(tex, display=True)}</div>')
    raise nodes.SkipNode


def drop_unread_modules(app: Sphinx, env: Any) -> None:
    """Takes modules that viewcode could not read off its index, which would link to no page."""
    modules = getattr(env, "_viewcode_modules", {})
    for name in [name for name, entry in modules.items() if not entry]:
        del modules[name]


def setup(app: Sphinx) -> None:
    """Called by Sphinx."""
    app.connect("autodoc-process-docstring", read_sections)
    app.connect("env-check-consistency", drop_unread_modules)
    app.add_html_math_renderer("mathml", (inline_formula, None), (formula_block, None))
