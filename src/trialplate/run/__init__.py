"""Run a lock: schedule, loop, executors, campaign."""
