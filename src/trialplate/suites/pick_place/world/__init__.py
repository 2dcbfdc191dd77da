"""The parts of the suite that load the simulator; everything beside this folder does without it."""

import trialplate.worlds  # noqa: F401  chooses the OpenGL back end before mujoco is imported
