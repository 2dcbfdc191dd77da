"""Drive `trialplate serve` with a policy of your own: python driver.py URL TOKEN_FILE IDENTITY.json POLICY

POLICY is `module:act`, and `act(observation)` returns rows of numbers or None to stop; or it is `-- COMMAND ...` that
answers lines of JSON, as `-- python policy_bridge.py arm.py:Arm --weights w.npz` does. IDENTITY.json holds the
`registration`: who the policy is. Standard library only; docs/wire.md has every message.
"""

import importlib
import json
import sys
from pathlib import Path
from subprocess import PIPE, Popen
from urllib.error import HTTPError
from urllib.request import ProxyHandler, Request, build_opener

ECHOED = ("protocol", "episode", "call_index", "observation_id", "registration")
UNMETERED = {"usage": None, "usage_reason": "not_metered", "latency_ms": None, "latency_ms_reason": "not_metered"}


def call(url, message=None, *, token=None):
    headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {token}"} if token else {})
    request = Request(url, None if message is None else json.dumps(message).encode(), headers)
    try:
        return json.load(build_opener(ProxyHandler({})).open(request, timeout=3600))
    except HTTPError as refused:
        return json.load(refused)  # an `error`: of a decision, and the service has charged it, or of the run


def answer(told, *, child, act):
    if child:
        print(json.dumps(told), file=child.stdin, flush=True)
        return json.loads(child.stdout.readline() or sys.exit("the policy has ended"))
    if told["type"] == "observation":
        rows = act(told)
        choice = {"stop": {"reason": None}} if rows is None else {"chunk": {"vectors": rows}}
        return {**{key: told[key] for key in ECHOED}, "type": "decision", **choice, **UNMETERED}


def drive(service, *, token, registration, **policy):
    hello = {"role": "driver", "software": "driver.py", "encodings": ["json"], "max_message_bytes": 2**26}
    for kind, body in (("hello", hello), ("register", {"registration": registration, "policy_spec": None})):
        message = {"protocol": "trialplate.policy/1", "type": kind, **body}
        if (reply := call(f"{service}/v1/{kind}", message, token=token))["type"] == "error":
            return reply
    while (started := call(f"{service}/v1/episodes", {}, token=token)).get("episode"):
        actor = service + started["actor"]
        answer(call(f"{actor}/spec"), **policy)
        while (seen := call(f"{actor}/observe"))["type"] == "observation":
            call(f"{actor}/act", answer(seen, **policy))
    return started


if __name__ == "__main__":
    service, token_file, identity, policy, *command = sys.argv[1:]
    sys.path.insert(0, "")
    child = Popen(command, stdin=PIPE, stdout=PIPE, encoding="utf-8") if policy == "--" else None
    act = None if child else getattr(importlib.import_module(policy.split(":")[0]), policy.split(":")[1])
    token, who = Path(token_file).read_text().strip(), json.loads(Path(identity).read_text())
    end = drive(service, token=token, registration=who, child=child, act=act)
    sys.exit(0 if end.get("reason") == "complete" else f"the run ended with {json.dumps(end)}")
