from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from trialplate.errors import SensorInvalid
from trialplate.run.health import check_frames, check_numbers

SIZES = [(256, 256), (17, 40), (2, 7)]


def noise(seed: int, *, size: tuple[int, int] = (256, 256)) -> NDArray[np.uint8]:
    return np.random.default_rng(seed).integers(0, 255, (*size, 3), dtype=np.uint8)


def blank(colour: tuple[int, int, int] = (90, 12, 200), *, size: tuple[int, int] = (256, 256)) -> NDArray[np.uint8]:
    return np.broadcast_to(np.array(colour, dtype=np.uint8), (*size, 3)).copy()


def chw(frame: NDArray[np.uint8]) -> NDArray[np.uint8]:
    return np.ascontiguousarray(frame.transpose(2, 0, 1))


def test_different_pictures_are_healthy() -> None:
    check_frames({"front": noise(1), "wrist": noise(2)}, 3)
    check_frames({"front": chw(noise(1)), "wrist": chw(noise(2))}, 3)
    check_frames({}, 0)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("layout", ["hwc", "chw"])
def test_one_colour_in_every_pixel_is_named_with_camera_and_step(size: tuple[int, int], layout: str) -> None:
    frame = blank(size=size) if layout == "hwc" else chw(blank(size=size))
    with pytest.raises(SensorInvalid, match="step 20: camera 'wrist'") as caught:
        check_frames({"front": noise(1, size=(9, 9)), "wrist": frame}, 20)
    assert caught.value.code == "observation_unhealthy"


@pytest.mark.parametrize("layout", ["hwc", "chw"])
def test_one_pixel_or_one_channel_of_another_value_makes_a_picture(layout: str) -> None:
    for row, column, channel in ((0, 0, 0), (255, 255, 2), (31, 33, 1)):
        frame = blank()
        frame[row, column, channel] += 1
        check_frames({"front": frame if layout == "hwc" else chw(frame)}, 0)


def test_two_cameras_with_the_same_bytes_are_both_named() -> None:
    with pytest.raises(SensorInvalid, match="step 7: cameras 'front' and 'wrist'") as caught:
        check_frames({"front": noise(1), "side": noise(2), "wrist": noise(1)}, 7)
    assert caught.value.code == "observation_unhealthy"


def test_twins_that_differ_in_one_byte_are_no_twins() -> None:
    twin = noise(1)
    twin[255, 254, 1] ^= 1
    check_frames({"front": noise(1), "wrist": twin}, 0)


def test_cameras_of_another_size_are_no_twins() -> None:
    check_frames({"front": noise(1), "wrist": noise(1)[:128].copy()}, 0)


def test_a_view_that_is_not_contiguous_is_read_as_it_looks() -> None:
    check_frames({"front": noise(1)[::-1, ::2]}, 0)
    with pytest.raises(SensorInvalid):
        check_frames({"front": blank()[::-1, ::2]}, 0)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_reading_that_is_not_finite_is_named_with_channel_and_step(value: float) -> None:
    healthy = {"a": np.zeros(3), "b": np.array([1.0, 2.0])}
    check_numbers(healthy, 4)
    with pytest.raises(SensorInvalid, match=r"step 4: channel 'b' is not finite: \[1.0, ") as caught:
        check_numbers(healthy | {"b": np.array([1.0, value])}, 4)
    assert caught.value.code == "observation_unhealthy"
