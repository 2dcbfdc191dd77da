"""From recordings to outcomes: pure functions that never touch a world or a policy."""
