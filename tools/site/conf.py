"""How Sphinx shows the pages that build.py lays out: offline, nothing executed, nothing fetched."""

from __future__ import annotations

import re
from html import escape
from typing import Any

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.util import logging

project = "textpriv"
html_title = "textpriv"
language = "en"
extensions = ["myst_nb"]
smartquotes = False  # quoted values stay as they are

nb_execution_mode = "off"  # notebooks show the outputs they have
nb_output_stderr = "remove"  # warnings and progress bars
nb_render_markdown_format = "myst"  # computed sentences have formulas, too
nb_code_prompt_show = nb_code_prompt_hide = "Code"
myst_enable_extensions = ["dollarmath"]
myst_disable_syntax = ["html_block", "html_inline"]  # HTML in a text is shown and not obeyed
myst_heading_anchors = 3

html_theme = "furo"
html_static_path = ["static"]
html_css_files = ["style.css"]
html_js_files = [(name, {"defer": "defer"}) for name in ("claims.js", "play.js")]
exclude_patterns = ["downloads"]  # notebooks as they are, of which build.py has made pages already
html_copy_source = False  # it would publish the notebooks a second time
html_show_copyright = False
html_use_index = False
html_show_search_summary = False  # the search would fetch pages, which fails without a server
html_math_renderer = "mathml"

# TeX that the notebooks have and the converter does not know, and what comes close.
_SPELLINGS = {"big": r"\\bigl", "Big": r"\\Bigl", "dots": r"\\ldots", "textstyle": ""}


def _math(writer: Any, node: nodes.math | nodes.math_block) -> None:
    """A formula as MathML, which browsers draw themselves; MathJax would be fetched."""
    as_block = isinstance(node, nodes.math_block)
    tex = node.astext()
    for unknown, known in _SPELLINGS.items():
        tex = re.sub(rf"\\{unknown}(?![a-zA-Z])", known, tex)
    try:
        drawn = tex2mathml(tex, as_block=as_block)
    except MathError as error:
        logging.getLogger(__name__).warning("%s in %s", error, tex, location=node)
        drawn = escape(tex)
    tag = "div" if as_block else "span"
    # A formula does not break into lines, so a long one has to scroll on a phone.
    kind = "block" if as_block else "long" if len(tex) > 40 else "inline"
    writer.body.append(f'<{tag} class="math {kind}">{drawn}</{tag}>')
    raise nodes.SkipNode


def setup(app: Any) -> None:
    """Called by Sphinx."""
    app.add_html_math_renderer("mathml", (_math, None), (_math, None))
