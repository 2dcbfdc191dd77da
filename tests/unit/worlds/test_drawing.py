import pytest

pytest.importorskip("mujoco")

from trialplate.worlds.drawing import RenderSettings, Surface, people_settings

pytestmark = pytest.mark.gl


def test_surfaces_that_are_alive_at_once_each_draw_their_own_picture(scene, make_scene):
    other = make_scene(block_xy_m=(0.6, -0.2))
    camera = scene.world.model.camera("primary").id

    def alone(which, settings):
        surface = Surface(which.world.model, settings=settings)
        surface.draw(which.world.data, camera_id=camera)
        picture = surface.draw(which.world.data, camera_id=camera)
        surface.close()
        return picture

    wanted = [
        (scene, RenderSettings()),
        (other, RenderSettings()),
        (scene, people_settings(height_px=120, width_px=160)),
    ]
    expected = [alone(*one) for one in wanted]
    surfaces = [Surface(which.world.model, settings=settings) for which, settings in wanted]
    for turn in range(3):
        for n, surface in enumerate(surfaces):
            picture = surface.draw(wanted[n][0].world.data, camera_id=camera)
            if turn:  # the first picture of a surface may differ by a pixel
                assert (picture == expected[n]).all()
    surfaces.pop().close()
    for n, surface in enumerate(surfaces):
        assert (surface.draw(wanted[n][0].world.data, camera_id=camera) == expected[n]).all()
        surface.close()
    assert (expected[0] != expected[1]).any()
