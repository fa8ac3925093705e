"""Where data is found, that it is checked, and that a download is whole or not there."""

import gzip
import hashlib
import http.server
import os
import threading
from pathlib import Path

import pytest

from lemmata.data import DataDamaged, DataNotFound, cache_folder, data_folder, locate
from lemmata.data.locate import File, Source

CONTENT = b"to be, or not to be\n" * 500
SHA = hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture(autouse=True)
def folders(tmp_path, monkeypatch):
    """A data folder and a cache of this test's own."""
    monkeypatch.setenv("LEMMATA_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("LEMMATA_CACHE", str(tmp_path / "cache"))
    (tmp_path / "data" / "toy").mkdir(parents=True)
    return tmp_path


def source(url=None, name="text.txt.gz"):
    return Source("toy", "A toy.", "nowhere", "free", (File(name, len(CONTENT), SHA, url),))


def left_behind(folder):
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


def test_a_file_in_the_data_folder_is_found(folders):
    path = folders / "data" / "toy" / "text.txt.gz"
    path.write_bytes(gzip.compress(CONTENT))
    assert source().find("text.txt.gz") == path


def test_recompressing_does_not_matter_but_content_does(folders):
    path = folders / "data" / "toy" / "text.txt.gz"
    for level in (1, 9):
        path.write_bytes(gzip.compress(CONTENT, level))
        source().find("text.txt.gz")
    path.write_bytes(gzip.compress(CONTENT + b"!"))
    with pytest.raises(DataDamaged, match="SHA-256"):
        source().find("text.txt.gz")


def test_a_truncated_file_is_named(folders):
    path = folders / "data" / "toy" / "text.txt.gz"
    path.write_bytes(gzip.compress(CONTENT)[:-20])
    with pytest.raises(DataDamaged, match="not a whole gzip file"):
        source().find("text.txt.gz")


def test_a_checked_file_is_not_read_again_until_it_changes(folders, monkeypatch):
    path = folders / "data" / "toy" / "text.txt"
    path.write_bytes(CONTENT)
    reads = []
    original = locate.content_sha256
    monkeypatch.setattr(locate, "content_sha256", lambda path: reads.append(path) or original(path))
    toy = source(name="text.txt")
    toy.find("text.txt")
    toy.find("text.txt")
    assert len(reads) == 1
    os.utime(path, ns=(1, 1))
    toy.find("text.txt")
    assert len(reads) == 2
    path.write_bytes(CONTENT[:-1])
    with pytest.raises(DataDamaged):
        toy.find("text.txt")


def test_a_damaged_file_is_never_remembered_as_good(folders):
    (folders / "data" / "toy" / "text.txt").write_bytes(b"x")
    for _ in range(2):
        with pytest.raises(DataDamaged):
            source(name="text.txt").find("text.txt")


def test_a_cache_that_cannot_be_written_only_costs_time(folders, monkeypatch):
    (folders / "file").write_text("in the way")
    monkeypatch.setenv("LEMMATA_CACHE", str(folders / "file"))
    (folders / "data" / "toy" / "text.txt").write_bytes(CONTENT)
    assert source(name="text.txt").find("text.txt").exists()


def test_absence_is_explained(folders, monkeypatch):
    with pytest.raises(DataNotFound) as caught:
        source("https://example.org/text").find("text.txt.gz")
    message = str(caught.value)
    assert isinstance(caught.value, FileNotFoundError)
    assert str(folders / "data" / "toy" / "text.txt.gz") in message
    assert str(folders / "cache" / "data" / "toy" / "text.txt.gz") in message
    assert "download=True" in message
    monkeypatch.delenv("LEMMATA_DATA")
    with pytest.raises(DataNotFound, match="LEMMATA_DATA is not set"):
        source().find("text.txt.gz")


def test_nothing_is_downloaded_unasked(folders):
    there = folders / "there.txt"
    there.write_bytes(CONTENT)
    with pytest.raises(DataNotFound):
        source(there.as_uri()).find("text.txt.gz")
    assert not (folders / "cache").exists()


@pytest.mark.parametrize("packed", [False, True])
def test_a_download_is_checked_stored_and_found_again(folders, packed):
    there = folders / "there"
    there.write_bytes(gzip.compress(CONTENT) if packed else CONTENT)
    toy = source(there.as_uri())
    path = toy.find("text.txt.gz", download=True)
    assert path == folders / "cache" / "data" / "toy" / "text.txt.gz"
    assert gzip.decompress(path.read_bytes()) == CONTENT
    there.unlink()
    assert toy.find("text.txt.gz") == path


@pytest.mark.parametrize(
    "sent",
    [CONTENT[:-1], CONTENT + b"!", b"", b"<html>not found</html>", gzip.compress(CONTENT)[:-30], b"\x1f\x8b rubbish",
     gzip.compress(bytes(50_000_000))],
    ids=["short", "long", "empty", "html", "broken gzip", "no gzip", "a bomb"],
)  # fmt: skip
def test_a_bad_download_is_refused_and_leaves_nothing(folders, sent):
    there = folders / "there"
    there.write_bytes(sent)
    with pytest.raises(DataDamaged, match="nothing was kept"):
        source(there.as_uri()).find("text.txt.gz", download=True)
    assert left_behind(folders) == ["there"]


class Server(http.server.BaseHTTPRequestHandler):
    """Serves the content, a missing page, or breaks off in the middle."""

    def do_GET(self):
        if self.path == "/missing":
            self.send_error(404)
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(CONTENT)))
        self.end_headers()
        self.wfile.write(CONTENT[: 100 if self.path == "/broken" else None])

    def log_message(self, *_):
        pass


@pytest.fixture
def address():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


def test_http_downloads_arrive(address, folders):
    path = source(f"{address}/whole").find("text.txt.gz", download=True)
    assert gzip.decompress(path.read_bytes()) == CONTENT


def test_a_connection_that_breaks_off_leaves_nothing(address, folders):
    with pytest.raises((DataDamaged, DataNotFound)):
        source(f"{address}/broken").find("text.txt.gz", download=True)
    assert left_behind(folders) == []


def test_a_missing_page_and_a_closed_door_are_not_found(address, folders):
    with pytest.raises(DataNotFound, match="404"):
        source(f"{address}/missing").find("text.txt.gz", download=True)
    with pytest.raises(DataNotFound, match="could not be fetched"):
        source("http://127.0.0.1:9/closed").find("text.txt.gz", download=True)
    assert left_behind(folders) == []


def test_the_cache_is_where_the_platform_keeps_caches(monkeypatch):
    monkeypatch.delenv("LEMMATA_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    monkeypatch.setattr("sys.platform", "linux")
    assert cache_folder() == Path("/somewhere/lemmata")
    monkeypatch.setattr("sys.platform", "darwin")
    assert cache_folder() == Path.home() / "Library" / "Caches" / "lemmata"


def test_a_tilde_in_the_variables_is_the_home_folder(monkeypatch):
    monkeypatch.setenv("LEMMATA_DATA", "~/sets")
    assert data_folder() == Path.home() / "sets"
