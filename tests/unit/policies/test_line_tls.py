"""``wss://``: the same connection behind a certificate that must be trusted."""

from __future__ import annotations

import os
import shutil
import ssl
import subprocess
from pathlib import Path
from time import monotonic

import pytest
from test_line import SECONDS, echo, opened

from lying_servers import hello_of, honest, own_server, websocket_server
from served_policies import DECLARED, asked, begin, look, setting
from trialplate.policies.client.line import NoLine
from trialplate.policies.client.websocket import WebSocketActor

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl makes the certificates")


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate for localhost that signs itself, with its key in the same file."""
    folder = tmp_path_factory.mktemp("tls")
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
         "-keyout", "key.pem", "-out", "cert.pem", "-days", "2", "-subj", "/CN=localhost",
         "-addext", "subjectAltName=DNS:localhost"],
        cwd=folder, check=True, capture_output=True,
    )  # fmt: skip
    return folder


@pytest.fixture
def context(certificate: Path) -> ssl.SSLContext:
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.load_cert_chain(certificate / "cert.pem", certificate / "key.pem")
    return made


@pytest.fixture
def trusted(certificate: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate / "cert.pem"))


def behind_tls(uri: str) -> str:
    return uri.replace("ws://127.0.0.1", "wss://localhost")


@pytest.mark.usefixtures("trusted")
@pytest.mark.parametrize("size", [1, 65_536, 3_000_000])
def test_a_message_of_any_size_comes_back_as_it_went_out(size: int, context: ssl.SSLContext) -> None:
    message = os.urandom(size)
    with websocket_server(echo, ssl=context) as uri:
        line = opened(behind_tls(uri), max_message_bytes=2**22)
        for _ in range(2):
            line.send(message, deadline_s=monotonic() + SECONDS)
            assert line.receive(deadline_s=monotonic() + SECONDS) == message
            assert line.alive()
            assert line.unread() == 0
        line.close(timeout_s=1.0)


@pytest.mark.usefixtures("trusted")
def test_an_episode_is_played_behind_tls(context: ssl.SSLContext) -> None:
    with own_server(hello_of(DECLARED), honest, ssl=context) as uri:
        actor = WebSocketActor(behind_tls(uri), setting())
        actor.reset(begin(), None)  # type: ignore[arg-type]
        assert [asked(actor, look(call_index=n)).tolist() for n in range(3)] == [[[1.0, 0.5]]] * 3
        actor.close()


def test_a_certificate_that_nobody_vouches_for_is_refused_at_once(context: ssl.SSLContext) -> None:
    with websocket_server(echo, ssl=context) as uri, pytest.raises(NoLine, match="certificate is not trusted") as no:
        opened(behind_tls(uri))
    assert not no.value.transient


@pytest.mark.usefixtures("trusted")
def test_a_certificate_for_another_name_is_refused(context: ssl.SSLContext) -> None:
    with websocket_server(echo, ssl=context) as uri, pytest.raises(NoLine, match="certificate is not trusted"):
        opened(uri.replace("ws://", "wss://"))


def test_a_server_without_tls_is_told() -> None:
    with websocket_server(echo) as uri, pytest.raises(NoLine, match="no TLS"):
        opened(behind_tls(uri))
