"""The protocol of every toy campaign of the tests."""

TOY_PROTOCOL = """
schema = "trialplate.protocol/1"
name = "toy"
question = "Does the scripted arm carry the block?"
run_class = "development"

[suite]
name = "toy"
version = "1"
repeats = 2

[[arms]]
name = "null"
policy = "control:null"

[[arms]]
name = "scripted"
policy = "control:scripted"

[[arms]]
name = "oracle"
policy = "control:oracle"

[schedule]
interrupted = "replace"

[[claims]]
name = "scripted-half"
kind = "threshold_rate"
arm = "scripted"
rate = 0.5
"""
