"""All of a code agent that a test starts in an empty environment, with the standard library and no path to anything.

It is handed one text on its standard input. While it plays by that text it writes down every byte that it can read:
each file below its folder at every moment, what lies beside the folder, and what the system tells it about itself.
It never sees this file's name: the test hands over the source, too.
"""

import base64
import json
import os
import re
import sys
import threading
import time
from pathlib import Path

EXAMPLE = re.compile(r"^\{$.*?^\}$", re.DOTALL | re.MULTILINE)
COPIED = ("episode", "call_index", "observation_id", "registration")


class Eyes:
    """Looks at everything below the folder, over and over, in a thread of its own."""

    def __init__(self):
        self.files, self._known, self._over = [], set(), threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()

    def _watch(self):
        while not self._over.is_set():
            self.look(".")
            time.sleep(0.001)

    def look(self, place):
        for base, folders, names in os.walk(place):
            for name in (*folders, *names):
                path = Path(base, name)
                try:
                    self._take(path, path.lstat())
                except FileNotFoundError:
                    continue

    def _take(self, path, entry):
        key = (path, entry.st_ino, entry.st_size, entry.st_mtime_ns)
        if key in self._known:
            return
        extended = os.listxattr(path, follow_symlinks=False)
        seen = {"path": str(path), "mtime_s": entry.st_mtime, "extended": extended}
        if path.is_file():
            seen["base64"] = base64.b64encode(path.read_bytes()).decode()
        self._known.add(key)
        self.files.append(seen)

    def close(self):
        self._over.set()
        self._thread.join()
        self.look(".")
        self.look("..")


def about_itself():
    """Return what the system says of this process; the path of its interpreter is its own."""
    told = {"cwd": str(Path.cwd()), "environment": dict(os.environ), "arguments": sys.argv}
    for name in ("environ", "cmdline", "comm"):
        told[name] = Path("/proc/self", name).read_bytes().decode(errors="replace")
    told["cmdline"] = told["cmdline"].partition("\0")[2]
    told["open"] = [str(Path(f"/proc/self/fd/{number}").readlink()) for number in range(3)]
    return told


def read(name):
    return json.loads(Path(name).read_text(encoding="utf-8"))


def component(terms, kind):
    """Return a component of an action and where its numbers stand in a row."""
    first = 0
    for part in terms["action_spec"]["components"]:
        if part["kind"] == kind:
            return part, first
        first += part["dim"]


def decide(terms, seen, form):
    """Go to the place that the instruction names, close there, stop. Without one: go down a little, then stop."""
    wanted = [float(number) for number in re.findall(r"\b[xyz] (-?\d+\.?\d*)", seen["instruction"])]
    place = next(s["name"] for s in terms["observation_spec"]["proprio"] if s["dim"] == 3 and s["unit"] == "m")
    here = seen["proprio"][place]
    if not wanted:
        wanted = [here[0], here[1], here[2] - 0.02]
    hand, first = component(terms, "ee_position")
    grip, last = component(terms, "gripper")
    scale = hand.get("scale") or 1.0
    rows = []
    for _ in range(terms["replan_interval"]):
        row = list(form["chunk"]["vectors"][0])
        left = [(goal - at) / scale for goal, at in zip(wanted, here, strict=True)]
        there = max(abs(number) for number in left) * scale < 0.005
        step = [min(max(n, low), high) for n, low, high in zip(left, hand["low"], hand["high"], strict=True)]
        here = [at + number * scale for at, number in zip(here, step, strict=True)]
        row[first : first + 3] = step
        row[last] = grip["gripper"]["closed" if there else "open"]
        rows.append(row)
    return {"chunk": {"vectors": rows}}


def play(text, did):
    """Do what the text says, until done.json is there; return its reason."""
    folder = re.search(r"this folder:\n\n    (\S+)\n", text)[1]
    assert Path(folder).samefile("."), "the text names another folder than the one it was started in"
    chunk, stop = (json.loads(example) for example in EXAMPLE.findall(text))
    terms = read("spec.json")
    did.append(["read", "spec.json", terms])
    number = 0
    while True:
        name = f"{number:05d}.json"
        while not Path("obs", name).exists():
            if Path("done.json").exists():
                did.append(["read", "done.json", read("done.json")])
                return
            time.sleep(0.01)
        seen = read(f"obs/{name}")
        did.append(["read", f"obs/{name}", seen])
        form, decision = chunk, decide(terms, seen, chunk)
        if number == 6:
            form, decision = stop, {"stop": {"reason": "there is nothing left to do"}}
        answer = {**form, **{key: seen[key] for key in COPIED}, **decision}
        staged = Path("act", f"{name}.tmp")
        staged.write_text(json.dumps(answer), encoding="utf-8")
        staged.rename(Path("act", name))
        did.append(["write", f"act/{name}", answer])
        number += 1


def main(text):
    did, eyes = [], Eyes()
    try:
        play(text, did)
    finally:
        eyes.close()
    json.dump({"did": did, "files": eyes.files, "itself": about_itself()}, sys.stdout)
