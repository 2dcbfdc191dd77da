"""The adapters named in a protocol: what lies between environment and policy, and nothing but that."""
