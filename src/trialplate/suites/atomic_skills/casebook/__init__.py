"""The frozen cases and how they were made: factors written out, one function per skill, no simulator.

What runs is ``data/*.json``; these functions made it, and a test makes it again and compares.
"""
