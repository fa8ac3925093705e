"""The site in headless Chromium: nothing comes from elsewhere, nothing scrolls sideways, search finds, axe is content.

The browser is the machine's own (LEMMATA_CHROMIUM, or chromium on the PATH). Without one these tests are skipped, unless
LEMMATA_BROWSER says that they are required, as .ci/run does.
"""

import functools
import gzip
import http.server
import os
import shutil
import socketserver
import threading
from pathlib import Path

import pytest

CHROMIUM = (
    os.environ.get("LEMMATA_CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
)
REQUIRED = os.environ.get("LEMMATA_BROWSER") == "required"
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update",
    "--disable-sync", "--no-first-run",
)  # fmt: skip
PAGES = (
    "index.html",
    "which-model.html",
    "api/lemmata.KMeans.html",
    "gallery/reduce/cluster_and_prove.html",
)

if not REQUIRED:
    pytest.importorskip("playwright")
    if not CHROMIUM:
        pytest.skip("no Chromium on this machine", allow_module_level=True)


class Quiet(http.server.SimpleHTTPRequestHandler):
    """Serves files without a word."""

    def log_message(self, *words):
        pass


@pytest.fixture(scope="module")
def address(site):
    handler = functools.partial(Quiet, directory=str(site))
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


@pytest.fixture(scope="module")
def browser():
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        found = driver.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        yield found
        found.close()


@pytest.fixture
def open_page(browser, address):
    """Open a page at a width; the addresses of its requests are kept in `page.asked`."""
    contexts = []

    def open_at(name, width=1280):
        contexts.append(browser.new_context(viewport={"width": width, "height": 900}))
        page = contexts[-1].new_page()
        page.asked = []
        page.on("request", lambda request: page.asked.append(request.url))
        page.goto(f"{address}/{name}", wait_until="load")
        return page

    yield open_at
    for one in contexts:
        one.close()


@pytest.mark.parametrize("width", [1280, 400])
@pytest.mark.parametrize("name", PAGES)
def test_a_page_stays_at_home_and_within_the_window(name, width, open_page, address, site):
    page = open_page(name, width)
    assert [url for url in page.asked if not url.startswith((address, "data:"))] == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    if folder := os.environ.get("LEMMATA_SCREENSHOTS"):
        page.screenshot(path=f"{folder}/{Path(name).stem}-{width}.png")
    if name == "index.html" and width == 1280:
        # as any web server sends them: texts compressed
        files = [site / url.removeprefix(f"{address}/").partition("?")[0] for url in page.asked]
        assert sum(len(gzip.compress(path.read_bytes())) for path in files) <= 500_000


@pytest.mark.parametrize(("word", "target"), [("KMeans", "KMeans"), ("subspace_determined", "PCA")])
def test_the_search_finds(word, target, open_page):
    page = open_page(f"search.html?q={word}")
    page.wait_for_selector("#search-results li", timeout=20_000)
    assert target in page.inner_text("#search-results")


@pytest.mark.parametrize("name", PAGES)
def test_nothing_serious_stands_in_the_way_of_anybody(name, open_page):
    if REQUIRED:
        import axe_playwright_python as axe
    else:
        axe = pytest.importorskip("axe_playwright_python")
    page = open_page(name)
    page.add_script_tag(path=str(Path(axe.__file__).with_name("axe.min.js")))
    found = page.evaluate("axe.run({resultTypes: ['violations']})")["violations"]
    serious = {
        one["id"]: one["nodes"][0]["html"][:200]
        for one in found
        if one["impact"] in ("serious", "critical")
    }
    assert serious == {}
