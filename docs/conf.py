"""Settings of the site; `make docs` builds it."""

from typing import Any

from sphinx.application import Sphinx
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
extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx_copybutton"]
exclude_patterns = ["schema/*"]
myst_heading_anchors = 4
nb_execution_mode = "off"  # notebooks are stored with their outputs: `make notebooks`
default_role = "code"
autodoc_default_options = {"members": True, "member-order": "bysource"}
autodoc_typehints_format = "short"
python_use_unqualified_type_names = True
python_display_short_literal_types = True
maximum_signature_line_length = 80
SECTIONS = Config(napoleon_use_param=False, napoleon_use_rtype=False)


def read_sections(
    app: Sphinx, what: str, name: str, thing: object, options: Any, lines: list[str]
) -> None:
    """Turns `Args:` and `Returns:` of functions and classes into lists. (Sphinx's own extension
    also takes a colon in an attribute's sentence for the end of a type.)"""
    if what not in ("attribute", "property"):
        lines[:] = GoogleDocstring(lines, SECTIONS, app, what, name, thing, options).lines()


def setup(app: Sphinx) -> None:
    """Called by Sphinx."""
    app.connect("autodoc-process-docstring", read_sections)
