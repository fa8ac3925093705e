"""Sphinx's settings. `python -m tools.site` (./run docs) prepares the pages and calls Sphinx; nothing comes from elsewhere."""

import os
import sys
from functools import lru_cache
from pathlib import Path

from sphinx.search.en import SearchEnglish

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

project = "lemmata"
author = copyright = "The lemmata developers"
extensions = ["myst_parser", "sphinx_gallery.gen_gallery"]
root_doc = "index"
default_role = "literal"
suppress_warnings = ["config.cache"]  # sphinx-gallery keeps functions in its settings
nitpicky = True
smartquotes = False  # quotes in code mean themselves

# the same words occur on many pages: a tenth of a build is finding their stems
SearchEnglish.stem = lru_cache(None)(SearchEnglish.stem)

# Markdown
myst_enable_extensions = ["colon_fence", "attrs_block"]
myst_heading_anchors = 4

# the reference is written by tools/site/reference.py
add_module_names = False
toc_object_entries = False

sphinx_gallery_conf = {
    "examples_dirs": str(ROOT / "build" / "examples"),
    "gallery_dirs": "gallery",
    "filename_pattern": r".*\.py$",
    "plot_gallery": bool(os.environ.get("LEMMATA_GALLERY")),
    "abort_on_example_error": True,
    "download_all_examples": False,
    "show_memory": False,
    "remove_config_comments": True,
    "show_signature": False,
    "within_subsection_order": "FileNameSortKey",
    "write_computation_times": False,  # its page loads a table from elsewhere
}

html_theme = "pydata_sphinx_theme"
html_title = "lemmata"
html_static_path = ["static"]
templates_path = ["templates"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_copy_source = False
html_context = {"default_mode": "auto"}
html_sidebars = {"index": [], "which-model": [], "certificate": [], "api/*": [], "gallery/**": []}
html_theme_options = {
    "use_edit_page_button": False,
    "show_prev_next": False,
    "navigation_with_keys": False,
    "header_links_before_dropdown": 6,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
    "logo": {"text": "lemmata"},
}
pygments_style = "a11y-high-contrast-light"

# where a link check may fail for reasons that are not ours
linkcheck_timeout = 15
linkcheck_ignore = [r"https://github.com/lemmata/.*"]
