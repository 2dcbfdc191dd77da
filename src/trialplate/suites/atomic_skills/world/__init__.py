"""The live world of the suite: scenes, robots, contacts, replay. Imports MuJoCo."""
