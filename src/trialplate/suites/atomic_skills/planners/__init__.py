"""The shipped planners: ``baseline`` for all fifteen skills, and the controls that must fail."""
