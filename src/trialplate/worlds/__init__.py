"""MuJoCo machinery that suites share: the Panda, its control, grasp attachment, cameras, digests, video.

Importing this package chooses the OpenGL back end, because mujoco reads it once, at its own import.
"""

from trialplate.worlds.gl import choose_gl_backend

choose_gl_backend()
