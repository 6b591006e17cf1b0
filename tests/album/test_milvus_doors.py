"""Servers that ask for a token and speak TLS, and ports that are taken."""

import shutil
import socket
import subprocess
import sys

import numpy as np
import pytest
from milvus_servers import TOOL, real_server
from milvus_servers import tool as server_tool
from smoothap.album.milvus_loading import load_album

from smoothap.album import Album


@pytest.mark.milvus
@pytest.mark.alone
@pytest.mark.slow
def test_a_token_and_tls_are_asked_for_and_given(tmp_path, monkeypatch):
    if (openssl := shutil.which("openssl")) is None:
        pytest.skip("openssl makes the certificate, and is not here")
    certificate, key = tmp_path / "server.pem", tmp_path / "server.key"
    made = [openssl, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    made += ["-addext", "subjectAltName=DNS:localhost", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run(made, check=True, capture_output=True)
    Album.from_arrays(np.eye(8), path=tmp_path / "album")
    options = ["--authorization", "--tls", str(certificate), str(key)]
    with real_server(tmp_path / "server", options) as server:
        address = f"milvus+tls://localhost:{server.port}/one"
        with pytest.raises(ValueError, match="does not answer"):  # nobody vouches for the certificate
            load_album(tmp_path / "album", address, patience=1)
        monkeypatch.setenv("MILVUS_CERTIFICATE", str(certificate))
        with pytest.raises(ValueError, match="MILVUS_TOKEN"):
            load_album(tmp_path / "album", address, patience=1)
        monkeypatch.setenv("MILVUS_TOKEN", "root:wrong")
        with pytest.raises(ValueError, match="MILVUS_TOKEN"):
            load_album(tmp_path / "album", address, patience=1)
        monkeypatch.setenv("MILVUS_TOKEN", "root:Milvus")
        assert load_album(tmp_path / "album", address).photos == 8
        assert len(Album.open(address).search(3, 7)) == 7


def test_taken_ports_are_told_in_a_sentence(tmp_path):
    if not server_tool.is_set_up():
        pytest.skip("the Milvus server is not set up: make test-milvus")
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        command = [sys.executable, str(TOOL), str(tmp_path / "data"), "--port", str(other.getsockname()[1])]
        done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1
    assert "is taken: one Milvus server runs at a time" in done.stderr
