"""Bombs and hostile files are refused, under a limit of time and memory."""

import contextlib
import io
import json
import os
import signal
import subprocess
import sys
import threading
import time

import pytest
from attackers import hostile_images, photo_bytes, upload
from PIL import Image

from smoothap.data.reading import UnreadableImage
from smoothap.server.decoder import Decoder
from smoothap.server.settings import Limits

pytestmark = pytest.mark.guarantee(16)


@pytest.mark.alone
def test_fifty_hostile_images_are_refused_with_a_sentence(server, measured):
    images = hostile_images()
    assert len(images) >= 50
    before, most, watching = server.memory(), [0], threading.Event()

    def watch():
        while not watching.wait(0.02):
            most[0] = max(most[0], server.memory())

    watcher = threading.Thread(target=watch)
    watcher.start()
    answers = {}
    for name, content in images.items():
        start = time.monotonic()
        answers[name] = upload(server.port, "/api/v1/albums/letters/search/photo", content)
        assert time.monotonic() - start < 15, name
    watching.set()
    watcher.join()
    measured(f"{len(images)} hostile images, memory at most {(most[0] - before) / 1e6:+.0f} MB")
    wrong = {name: status for name, (status, _) in answers.items() if not 400 <= status < 500}
    # A whole photo may hide behind a wrong head or end: that is read, or refused, as Pillow sees fit.
    assert set(wrong) <= {"text bomb", "profile bomb", "endless data", "webp with a wrong length"}, wrong
    assert set(wrong.values()) <= {200}
    assert all(json.loads(body)["detail"].endswith(".") for status, body in answers.values() if status != 200)
    assert most[0] - before <= 200_000_000
    assert upload(server.port, "/api/v1/albums/letters/search/photo", photo_bytes())[0] == 200


def test_a_decoder_that_takes_too_long_is_ended_and_the_next_photo_is_read(monkeypatch):
    decoder = Decoder(Limits(decode_seconds=1.0))
    try:
        assert decoder.decode(photo_bytes()).size == (120, 120)
        monkeypatch.setattr(decoder, "_limits", Limits(decode_seconds=0.0001))
        stream = io.BytesIO()
        Image.effect_noise((3000, 3000), 90).save(stream, "PNG")
        with pytest.raises(UnreadableImage, match="seconds to decode"):
            decoder.decode(stream.getvalue())
        monkeypatch.setattr(decoder, "_limits", Limits())
        assert decoder.decode(photo_bytes()).size == (120, 120)
    finally:
        decoder.close()


def test_a_decoder_that_is_killed_is_replaced():
    decoder = Decoder(Limits())
    try:
        decoder.decode(photo_bytes())
        os.kill(decoder._process.pid, signal.SIGKILL)
        with contextlib.suppress(UnreadableImage):  # told where it died in the middle of a photo
            decoder.decode(photo_bytes())
        assert decoder.decode(photo_bytes()).size == (120, 120)
    finally:
        decoder.close()


def test_a_decoder_can_write_no_file(tmp_path):
    code = (
        "from pathlib import Path; from smoothap.server.decoder_process import MemoryLimit; MemoryLimit(150, 150)\n"
        f"Path({str(tmp_path / 'file')!r}).write_text('x' * 10)"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(each for each in sys.path if each)}
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, env=environment)
    assert b"File too large" in run.stderr
    assert (tmp_path / "file").stat().st_size == 0
