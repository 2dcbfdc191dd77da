"""Planners of skills: each plan is made in a process of its own, and nothing that comes out of it is believed."""
