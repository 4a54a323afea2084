import errno
import hashlib
import io
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from transformer_lib import files
from transformer_lib.data import DownloadError, fetch

CONTENT = bytes(range(256)) * 1000
SHA256 = hashlib.sha256(CONTENT).hexdigest()


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.requests.append(self.path)
        if self.path == "/missing":
            return self.send_error(404, "Not Found")
        if self.path == "/silent":
            self.server.stop.wait(20)
            return None
        self.send_response(200)
        if self.path != "/no-length":
            self.send_header("Content-Length", str(len(CONTENT)))
        self.end_headers()
        self.wfile.write(CONTENT[:100_000] if self.path == "/cut" else CONTENT)
        return None

    def log_message(self, *_):
        pass


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.requests, server.stop = [], threading.Event()
    server.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield server
    server.stop.set()
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture(params=[None, b"what was there before"], ids=["no file before", "file before"])
def path(request, tmp_path):
    """Where a download goes that fails; it must be unchanged afterwards."""
    path = tmp_path / "file.bin"
    if request.param is not None:
        path.write_bytes(request.param)
    before = {p.name: p.read_bytes() for p in tmp_path.iterdir()}
    yield path
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == before


@pytest.mark.parametrize("page", ["/file", "/no-length"])
def test_fetch(server, tmp_path, page):
    path = tmp_path / "new" / "folder" / "file.bin"
    assert fetch(server.url + page, SHA256, path) == path
    assert path.read_bytes() == CONTENT
    assert [p.name for p in path.parent.iterdir()] == ["file.bin"]


def test_a_good_file_is_not_fetched_again_a_damaged_one_is(server, tmp_path):
    path = tmp_path / "file.bin"
    path.write_bytes(CONTENT)
    fetch(server.url + "/file", SHA256, path)
    assert server.requests == []
    path.write_bytes(CONTENT[:-1])
    fetch(server.url + "/file", SHA256, path)
    assert server.requests == ["/file"]
    assert path.read_bytes() == CONTENT


def test_progress_bar(server, tmp_path, capsys):
    fetch(server.url + "/file", SHA256, tmp_path / "quiet.bin")
    assert capsys.readouterr().err == ""
    fetch(server.url + "/file", SHA256, tmp_path / "loud.bin", progress=True)
    assert "250k/250k" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("page", "sha256", "message"),
    [
        ("/cut", SHA256, "cut off after 100,000 of 256,000 bytes"),
        ("/file", "0" * 64, f"SHA-256 is {SHA256}, expected 0000"),
        ("/missing", SHA256, "/missing answered HTTP 404 Not Found"),
        ("/silent", SHA256, "timed out"),
    ],
)
def test_a_failed_download_leaves_what_was_there(server, path, page, sha256, message):
    # On a busy machine an answer may take long; only the silent page has to time out.
    timeout = 0.2 if page == "/silent" else 60
    with pytest.raises(DownloadError, match=message) as caught:
        fetch(server.url + page, sha256, path, timeout=timeout)
    assert server.url + page in str(caught.value)


def test_no_network(server, path):
    server.shutdown()
    server.server_close()
    with pytest.raises(DownloadError, match=r"couldn't be downloaded to .*file\.bin: .*refused"):
        fetch(server.url + "/file", SHA256, path)


class FullDisk(io.FileIO):
    def write(self, data):
        if self.tell() + len(data) > 100_000:
            raise OSError(errno.ENOSPC, "No space left on device")
        return super().write(data)


def test_a_full_disk(server, path, monkeypatch):
    monkeypatch.setattr(files, "open", FullDisk, raising=False)
    with pytest.raises(DownloadError, match=r"file\.bin: .*No space left on device"):
        fetch(server.url + "/file", SHA256, path)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"url": "nowhere"}, "url must begin with"),
        ({"sha256": "abc"}, "sha256 must be 64 hexadecimal digits"),
        ({"path": 3}, "path must be a path"),
        ({"timeout": float("nan")}, r"timeout must be in \(0, 1e6\) seconds; got nan"),
    ],
)
def test_a_bad_call_names_its_argument(tmp_path, wrong, message):
    good = {"url": "http://127.0.0.1:9/", "sha256": SHA256, "path": tmp_path / "file"}
    with pytest.raises((ValueError, TypeError), match=message):
        fetch(**good | wrong)
    assert not list(tmp_path.iterdir())
