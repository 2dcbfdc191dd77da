"""Packaged benchmarks: data, world, controls and scorer of each in one folder."""
