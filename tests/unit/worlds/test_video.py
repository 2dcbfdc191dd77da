import io

import av
import numpy as np
import pytest
from PIL import Image

from trialplate.errors import UsageError
from trialplate.worlds.video import encode_image, encode_mp4, filmstrip


def _frames(count, *, height=64, width=96):
    ramp = np.linspace(0, 255, width, dtype=np.uint8)
    base = np.repeat(np.repeat(ramp[None, :, None], height, axis=0), 3, axis=2)
    return [np.roll(base, 4 * n, axis=1) for n in range(count)]


def _picture(data):
    return np.array(Image.open(io.BytesIO(data)))


def test_a_video_reads_back_with_its_frames_and_rate():
    frames = _frames(20)
    with av.open(io.BytesIO(encode_mp4(iter(frames), fps=20))) as container:
        stream = container.streams.video[0]
        assert stream.codec_context.name == "h264"
        assert stream.average_rate == 20
        decoded = [frame.to_ndarray(format="rgb24") for frame in container.decode(stream)]
    assert len(decoded) == 20
    for frame, original in zip(decoded, frames, strict=True):
        assert np.abs(frame.astype(int) - original).mean() < 6


def test_the_same_frames_give_the_same_bytes():
    assert encode_mp4(_frames(15), fps=20) == encode_mp4(_frames(15), fps=20)
    assert encode_mp4(_frames(15), fps=20) != encode_mp4(_frames(16), fps=20)


def test_no_frames_odd_sides_and_changing_sizes_are_refused():
    with pytest.raises(UsageError, match="no frames"):
        encode_mp4([], fps=20)
    with pytest.raises(UsageError, match="even sides"):
        encode_mp4(_frames(2, width=97), fps=20)
    with pytest.raises(UsageError, match="frame 1 of the video has shape"):
        encode_mp4([*_frames(1), *_frames(1, width=98)], fps=20)
    with pytest.raises(UsageError, match="uint8"):
        encode_mp4([np.zeros((4, 4, 3))], fps=20)


def test_a_filmstrip_shows_every_frame_in_order():
    frames = [np.full((32, 40, 3), n, dtype=np.uint8) for n in (10, 20, 30)]
    strip = _picture(filmstrip(frames, image_format="PNG"))
    assert strip.shape == (32, 3 * 40 + 2 * 3, 3)
    assert strip[16, [20, 63, 106], 0].tolist() == [10, 20, 30]
    assert (strip[:, 40:43] == 255).all()


def test_labels_stand_beneath_their_frames_and_leave_the_frames_alone():
    frames = [np.full((100, 100, 3), 90, dtype=np.uint8)] * 2
    strip = _picture(filmstrip(frames, labels=["", "3.5 s"], image_format="PNG"))
    assert strip.shape[0] == 112
    assert (strip[:100, :100] == 90).all()
    assert (strip[100:, :100] == 255).all()
    assert strip[100:, 103:].min() < 100


def test_a_filmstrip_of_nothing_or_with_missing_labels_is_refused():
    with pytest.raises(UsageError, match="no frames"):
        filmstrip([])
    with pytest.raises(UsageError, match="3 frames got 1 labels"):
        filmstrip(_frames(3), labels=["a"])
    with pytest.raises(UsageError, match="frame 1 of the filmstrip"):
        filmstrip([*_frames(1), *_frames(1, width=98)])


def test_a_picture_file_reads_back_exactly():
    frame = _frames(1)[0]
    assert np.array_equal(_picture(encode_image(frame)), frame)
