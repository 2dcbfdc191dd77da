import io

import av
import numpy as np
import pytest
from PIL import Image

from trialplate.errors import UsageError
from trialplate.worlds.video import encode_image, encode_video, filmstrip


def _frames(count, *, height=64, width=96):
    ramp = np.linspace(0, 255, width, dtype=np.uint8)
    base = np.repeat(np.repeat(ramp[None, :, None], height, axis=0), 3, axis=2)
    return [np.roll(base, 4 * n, axis=1) for n in range(count)]


def test_a_video_reads_back_with_its_frames_and_rate(tmp_path):
    frames = _frames(20)
    path = tmp_path / "episode.mp4"
    assert encode_video(iter(frames), path, rate_hz=20) == 20
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        assert stream.codec_context.name == "h264"
        assert stream.average_rate == 20
        decoded = [frame.to_ndarray(format="rgb24") for frame in container.decode(stream)]
    assert len(decoded) == 20
    for frame, original in zip(decoded, frames, strict=True):
        assert np.abs(frame.astype(int) - original).mean() < 6


def test_the_same_frames_give_the_same_bytes(tmp_path):
    for name in ("a.mp4", "b.mp4"):
        encode_video(_frames(15), tmp_path / name, rate_hz=20)
    assert (tmp_path / "a.mp4").read_bytes() == (tmp_path / "b.mp4").read_bytes()


def test_no_frames_odd_sides_and_changing_sizes_are_refused(tmp_path):
    path = tmp_path / "x.mp4"
    with pytest.raises(UsageError, match="no frames"):
        encode_video([], path, rate_hz=20)
    with pytest.raises(UsageError, match="even sides"):
        encode_video(_frames(2, width=97), path, rate_hz=20)
    with pytest.raises(UsageError, match="frame 1 has shape"):
        encode_video([*_frames(1), *_frames(1, width=98)], path, rate_hz=20)
    with pytest.raises(UsageError, match="uint8"):
        encode_video([np.zeros((4, 4, 3))], path, rate_hz=20)


def test_a_filmstrip_starts_with_the_first_frame_and_ends_with_the_last():
    frames = [np.full((32, 32, 3), n, dtype=np.uint8) for n in range(0, 200, 10)]
    strip = np.array(Image.open(io.BytesIO(filmstrip(frames, columns=5, image_format="PNG"))))
    assert strip.shape == (32, 5 * 32 + 4 * 4, 3)
    assert strip[0, 0, 0] == 0
    assert strip[0, -1, 0] == 190
    assert (strip[:, 33:35] == 255).all()


def test_a_filmstrip_of_fewer_frames_than_columns_shows_each_once():
    strip = np.array(Image.open(io.BytesIO(filmstrip(_frames(2), columns=6, image_format="PNG"))))
    assert strip.shape[1] == 2 * 96 + 4


def test_a_filmstrip_of_nothing_is_refused():
    with pytest.raises(UsageError, match="no frames"):
        filmstrip([])


def test_a_picture_file_reads_back_exactly():
    frame = _frames(1)[0]
    assert np.array_equal(np.array(Image.open(io.BytesIO(encode_image(frame)))), frame)
