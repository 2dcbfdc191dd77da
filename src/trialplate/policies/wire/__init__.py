"""The outer bytes of the contract: two msgpack dialects and a strict JSON.

``own`` and ``openpi`` read and write binary frames that differ in how an array is written; ``strict_json`` is for
HTTP, files and people. Each has a reader that checks size, depth, counts, dtype and shape before it allocates.
Nothing here knows a message: that is :mod:`trialplate.policies.messages`.
"""
