"""Rows 41 to 43 of the evidence specification, section 13: recorded actions simulated again."""

from __future__ import annotations

import io
import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray

from forger import Forger
from trialplate import api, exam, fingerprint, replaying
from trialplate.cli import main
from trialplate.errors import HarnessFault
from trialplate.interfaces import Suite
from trialplate.record import Trace
from trialplate.registry import load_suite
from trialplate.store import merkle
from trialplate.store.chain import system_clock
from trialplate.store.findings import Finding
from trialplate.store.view import read_campaign
from trialplate.testing import toy
from trialplate.verification import Verdict

PROTOCOL = """
schema = "trialplate.protocol/1"
name = "replayed"
question = "Do the recordings repeat?"
run_class = "development"
[suite]
name = "{suite}"
version = "1"
scenarios = [{scenarios}]
[schedule]
order = "manifest"
[[arms]]
name = "scripted"
policy = "control:{control}"
[[arms]]
name = "null"
policy = "control:null"
"""
SCRIPTED, NULL = "000000-0", "000001-0"
BEACON = bytes(range(32))


def campaign(folder: Path, suite: str, *scenarios: str, control: str = "scripted") -> Path:
    listed = ", ".join(f'"{name}"' for name in scenarios)
    path = folder / "protocol.toml"
    path.write_text(PROTOCOL.format(suite=suite, scenarios=listed, control=control), encoding="utf-8")
    api.run(api.lock(api.load_protocol(path), into=folder / "c"))
    api.score(folder / "c")
    return folder / "c"


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return campaign(tmp_path_factory.mktemp("honest"), "toy", "toy-001", "toy-002", "toy-003")


@pytest.fixture
def forger(honest: Path, tmp_path: Path) -> Forger:
    return Forger(Path(shutil.copytree(honest, tmp_path / "c")), clock=system_clock)


def assurance(verdict: Verdict) -> str:
    """Return the line that says what stands behind a campaign besides itself."""
    return next(line for line in verdict.lines() if line.startswith("ASSURANCE"))


def mismatches(forger: Forger) -> dict[str, Finding]:
    """Seal the forgery, see that a check without replay believes it, and return what a replay finds, by pointer."""
    forger.seal()
    api.score(forger.folder)
    assert exam.verify(forger.folder).findings == ()
    verdict = exam.verify(forger.folder, replay="all")
    assert verdict.exit_code == 1
    assert {item.code for item in verdict.findings} == {"replay_mismatch"}
    assert "replayed 6 of 6 episodes: 1 differ" in assurance(verdict)
    return {item.pointer: item for item in verdict.findings}


def edited_action(step: int, value: float) -> Callable[[Trace], Trace]:
    def edit(trace: Trace) -> Trace:
        action: NDArray[np.float64] = trace.action.copy()
        action[step - 1, 0] = value
        return replace(trace, action=action)

    return edit


# -- row 41 ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("step", [1, 3, 7])
def test_row_41_an_action_edited_with_every_digest_is_believed_without_replay_and_named_with_it(
    forger: Forger, step: int
) -> None:
    forger.edit_trace(SCRIPTED, edited_action(step, -0.25))
    found = mismatches(forger)
    first = found[f"/state_sha256/{step}"]
    assert first.path == f"episodes/{SCRIPTED}/trace.parquet"
    assert f"at control step {step}" in first.expected
    assert "distance_m differs most, by" in first.found or "hand_m differs most, by" in first.found
    assert " m (recorded" in first.found


def test_row_41_a_failure_turned_into_a_success_is_named_with_both_outcomes(forger: Forger) -> None:
    view = read_campaign(forger.folder)
    success = view.load_trace(view.rows[0])
    calls = view.load_trace(view.rows[1]).calls
    steps = success.steps

    def passed(trace: Trace) -> Trace:
        return replace(
            success, action=trace.action[:steps], state_sha256=trace.state_sha256[: steps + 1], calls=calls
        )

    def shorter(trace: Trace) -> Trace:
        done = passed(trace)
        return replace(done, calls=(*calls[:steps], {**calls[steps], "kind": "stop", "proposed": 0, "executed": 0}))

    forger.edit_trace(NULL, shorter)
    forger.edit_row(
        NULL,
        lambda row: row.update(
            termination="policy_stop", calls=steps + 1, rows_proposed=steps, rows_executed=steps,
            short_chunks=0,
        ),
    )  # fmt: skip
    forger.recount()
    found = mismatches(forger)
    verdicts = found[NULL]
    assert verdicts.path == "results.jsonl"
    assert verdicts.expected.startswith("PASS (chain_complete); reached ")
    assert verdicts.found.startswith("FAIL (stage_not_passed); reached not passed")
    assert "differs most" in found["/state_sha256/1"].found


def test_row_41_a_wrong_state_digest_is_named_where_every_measurement_agrees(forger: Forger) -> None:
    forger.edit_trace(
        SCRIPTED,
        lambda trace: replace(trace, state_sha256=(*trace.state_sha256[:4], "0" * 64, *trace.state_sha256[5:])),
    )
    found = mismatches(forger)
    assert set(found) == {"/state_sha256/4"}
    assert found["/state_sha256/4"].expected == f"state {'0' * 64} at control step 4"
    assert "every measured column is equal there" in found["/state_sha256/4"].found


def test_row_41_a_wrong_state_after_reset_is_named_in_row_and_trace(forger: Forger) -> None:
    forger.edit_trace(SCRIPTED, lambda trace: replace(trace, state_sha256=("0" * 64, *trace.state_sha256[1:])))
    found = mismatches(forger)
    assert set(found) == {"/initial_state_sha256", "/state_sha256/0"}
    assert found["/initial_state_sha256"].path == f"episodes/{SCRIPTED}/row.json"


def test_row_41_an_edited_measurement_beside_true_states_is_named_with_its_column(forger: Forger) -> None:
    def edit(trace: Trace) -> Trace:
        block = trace.measured["block_m"].copy()
        block[2] += 0.125
        return replace(trace, measured={**trace.measured, "block_m": block})

    forger.edit_trace(NULL, edit)
    found = mismatches(forger)
    assert "of what is measured, block_m differs most, by 0.125 m" in found["/state_sha256/2"].found


def test_row_41_a_trace_that_lacks_a_step_in_the_middle_is_named_at_that_step(forger: Forger) -> None:
    lacks = 5

    def edit(trace: Trace) -> Trace:
        return Trace(
            np.delete(trace.action, lacks - 1, axis=0),
            {name: np.delete(values, lacks, axis=0) for name, values in trace.measured.items()},
            trace.state_sha256[:lacks] + trace.state_sha256[lacks + 1 :],
            np.delete(trace.step_wall_us, lacks),
            trace.calls[: lacks - 1] + trace.calls[lacks:],
        )

    forger.edit_trace(SCRIPTED, edit)
    forger.edit_row(
        SCRIPTED,
        lambda row: row.update({name: row[name] - 1 for name in ("calls", "rows_proposed", "rows_executed")}),
    )
    assert f"/state_sha256/{lacks}" in mismatches(forger)


def test_row_41_an_action_that_the_world_refuses_is_named_though_every_state_before_it_is_true(
    forger: Forger,
) -> None:
    """The forger has the simulator, too: thirty true steps to the wall, and one through it."""
    world = toy.ToyWorld(body="own", profile="standard")
    scenario = toy.scenarios()[0]
    world.reset(scenario, seed=0)
    action = np.tile([1.0, -1.0], (31, 1))
    states, rows = [world.state_sha256()], [world.measure().values]
    for row in action:
        world.step(row)
        states.append(world.state_sha256())
        rows.append(world.measure().values)
    measured = np.array(rows)

    def edit(trace: Trace) -> Trace:
        columns = {column.name: measured[:, n : n + 1] for n, column in enumerate(toy.TOY.columns)}
        calls = (*trace.calls[:31], {**trace.calls[31], "kind": "stop", "proposed": 0, "executed": 0})
        return Trace(action, columns, tuple(states), trace.step_wall_us[:32], calls)

    forger.edit_trace(NULL, edit)
    forger.edit_row(
        NULL, lambda row: row.update(termination="policy_stop", calls=32, rows_proposed=31, rows_executed=31)
    )
    forger.recount()
    found = mismatches(forger)
    assert set(found) == {"/action/30"}
    assert "beyond the wall" in found["/action/30"].found


def test_row_41_more_steps_than_the_lock_allows_are_refused_before_they_are_simulated(forger: Forger) -> None:
    view = read_campaign(forger.folder)
    row, lock = view.rows[1], dict(view.lock_document)
    lock["suite"] = {**lock["suite"], "max_steps": 10}
    (found,) = replaying.repeat_rows(replace(view, lock_document=lock), [row])[0].findings
    assert (found.code, found.pointer, found.found) == ("replay_mismatch", "/step/11", "60")


def test_row_41_the_command_line_names_the_step_and_exits_1(
    forger: Forger, capsys: pytest.CaptureFixture[str]
) -> None:
    forger.edit_trace(SCRIPTED, edited_action(3, 0.5))
    forger.seal()
    api.score(forger.folder)
    assert told(capsys, forger.folder)[0] == 0
    code, document = told(capsys, forger.folder, "--replay", "--workers", "2")
    assert code == 1
    assert document["findings"][0]["code"] == "replay_mismatch"
    assert document["findings"][0]["pointer"] == "/state_sha256/3"
    assert document["replay"] | {"rows_root": ""} == {
        "picked": 6, "total": 6, "simulated": 6, "different": 1, "rows_root": "", "beacon": None, "controls": 0,
        "left_nothing": {},
    }  # fmt: skip


def told(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> tuple[int, dict[str, Any]]:
    capsys.readouterr()
    with pytest.raises(SystemExit) as ended:
        main(["verify", *map(str, arguments), "--json"])
    code = ended.value.code
    assert isinstance(code, int)
    return code, json.loads(capsys.readouterr().out)


# -- row 42 ----------------------------------------------------------------------------------------------------


def blocked(verdict: Verdict) -> dict[str, tuple[str, str]]:
    """Return pointer -> (locked, here) of a replay that compared nothing."""
    assert verdict.exit_code == 3
    assert {item.code for item in verdict.findings} == {"not_comparable_here"}
    assert verdict.replay is not None and verdict.replay.simulated == 0
    assert "replayed 0 of 6 episodes: not comparable here" in assurance(verdict)
    assert "differ" not in assurance(verdict)
    return {item.pointer: (item.expected, item.found) for item in verdict.findings}


def test_row_42_another_simulator_version_is_not_comparable_and_both_are_told(
    honest: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(toy, "identity", lambda: {"name": "toy", "numpy": "0.0.1", "rendering": None})
    found = blocked(exam.verify(honest, replay="all"))
    assert found == {"/simulator/numpy": (np.__version__, "0.0.1")}


@pytest.mark.parametrize("fact", ["cpu_family", "vector_extensions", "architecture", "libc"])
def test_row_42_another_machine_is_not_comparable_and_both_are_told(
    honest: Path, monkeypatch: pytest.MonkeyPatch, fact: str
) -> None:
    here = fingerprint.machine()
    monkeypatch.setattr(fingerprint, "machine", lambda: {**here, fact: "another"})
    assert blocked(exam.verify(honest, replay="all")) == {f"/machine/{fact}": (here[fact], "another")}


def test_row_42_a_forged_trace_is_never_ok_elsewhere_and_never_called_a_mismatch(
    forger: Forger, monkeypatch: pytest.MonkeyPatch
) -> None:
    forger.edit_trace(SCRIPTED, edited_action(3, 0.5))
    forger.seal()
    api.score(forger.folder)
    here = fingerprint.machine()
    monkeypatch.setattr(fingerprint, "machine", lambda: {**here, "libc": "musl 1.2"})
    assert blocked(exam.verify(forger.folder, replay=6)) == {"/machine/libc": (here["libc"], "musl 1.2")}


def test_row_42_what_neither_side_knows_is_not_taken_as_equal(honest: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lock = dict(read_campaign(honest).lock_document)
    lock["machine"] = {key: value for key, value in lock["machine"].items() if key != "cpu_family"}
    here = fingerprint.machine()
    monkeypatch.setattr(fingerprint, "machine", lambda: {**here, "cpu_family": None})
    assert [item.pointer for item in replaying.comparability(lock)] == ["/machine/cpu_family"]


def test_row_42_another_world_in_the_suite_and_another_numpy_are_not_comparable(honest: Path) -> None:
    lock = dict(read_campaign(honest).lock_document)
    lock["suite"] = {**lock["suite"], "sources": {"files": 1, "sha256": "0" * 64}}
    lock["distributions"] = {**lock["distributions"], "numpy": {"version": "0.9", "record_sha256": "0" * 64}}
    found = {item.pointer: item.expected for item in replaying.comparability(lock)}
    assert found == {"/suite/sources/sha256": "0" * 64, "/distributions/numpy/version": "0.9"}


def test_row_42_another_renderer_draws_otherwise_and_simulates_alike(
    honest: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(toy, "identity", lambda: {"name": "toy", "numpy": np.__version__, "rendering": "a GPU"})
    assert exam.verify(honest, replay="all").exit_code == 0


def test_row_42_a_suite_without_a_simulator_is_said_not_to_be_replayable(
    honest: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def imported(name: str) -> Suite:
        return replace(load_suite(name), replayable=False)

    monkeypatch.setattr(replaying, "load_suite", imported)
    found = blocked(exam.verify(honest, replay="all"))
    assert found == {"/suite/name": ("a suite with a simulator", "suite toy has none: nothing to replay")}


def test_row_42_a_suite_that_is_not_installed_is_not_comparable(honest: Path) -> None:
    lock = dict(read_campaign(honest).lock_document)
    lock["suite"] = {**lock["suite"], "name": "elsewhere"}
    (found,) = replaying.comparability(lock)
    assert found.code == "not_comparable_here" and "unknown suite 'elsewhere'" in found.found


# -- row 43 ----------------------------------------------------------------------------------------------------


def without_states(data: bytes) -> bytes:
    table = pq.read_table(io.BytesIO(data))
    return parquet(table.drop_columns(["state_sha256"]))


def with_null_states(data: bytes) -> bytes:
    table = pq.read_table(io.BytesIO(data))
    index = table.schema.get_field_index("state_sha256")
    values = table.column("state_sha256").to_pylist()
    values[3] = None
    field = table.schema.field(index).with_nullable(True)
    return parquet(table.set_column(index, field, pa.array(values, type=field.type)))


def without_last_state(data: bytes) -> bytes:
    table = pq.read_table(io.BytesIO(data))
    return parquet(table.slice(0, table.num_rows - 1))


def parquet(table: Any) -> bytes:
    sink = io.BytesIO()
    pq.write_table(table, sink, store_schema=False)
    return sink.getvalue()


@pytest.mark.parametrize("spoil", [without_states, with_null_states, without_last_state])
@pytest.mark.parametrize("replay", [None, "all"])
def test_row_43_a_trace_without_all_its_state_digests_is_malformed(
    forger: Forger, spoil: Callable[[bytes], bytes], replay: Any
) -> None:
    path = forger.folder / f"episodes/{SCRIPTED}/trace.parquet"
    forger.replace_trace(SCRIPTED, spoil(path.read_bytes()))
    forger.seal()
    verdict = exam.verify(forger.folder, replay=replay)
    assert verdict.exit_code == 2
    assert ("trace_malformed", f"episodes/{SCRIPTED}/trace.parquet") in {
        (item.code, item.path) for item in verdict.findings
    }
    if replay is not None:
        assert "replayed 5 of 6 episodes: none differ; 1 picked left no recording to replay" in assurance(verdict)


# -- who picks, and who works ----------------------------------------------------------------------------------


def test_the_beacon_and_the_root_of_the_rows_pick_and_nobody_else(honest: Path) -> None:
    view = read_campaign(honest)
    lines = (honest / "rows.jsonl").read_bytes().splitlines()
    picked = merkle.audit_sample(merkle.root(lines), BEACON, n=6, k=3)
    done = replaying.replay(view, episodes=3, beacon=BEACON)
    assert [f"{repeat.trial_id}" for repeat in done.repeats] == [f"{index:06d}" for index in picked]
    assert (done.root, done.beacon, done.picked, done.total) == (merkle.root(lines), BEACON.hex(), 3, 6)
    assert f"picked by beacon {BEACON.hex()} from rows {done.root}" in done.line()
    others = {
        tuple(repeat.trial_id for repeat in replaying.replay(view, episodes=3, beacon=bytes([n] * 32)).repeats)
        for n in range(6)
    }
    assert len(others) > 1


def test_without_a_beacon_one_is_drawn_here_and_told(honest: Path) -> None:
    view = read_campaign(honest)
    first, second = (replaying.replay(view, episodes=2) for _ in range(2))
    assert first.beacon is not None and second.beacon is not None and first.beacon != second.beacon
    again = replaying.replay(view, episodes=2, beacon=bytes.fromhex(first.beacon))
    assert again.repeats == first.repeats


def test_as_many_as_there_are_is_all_of_them_and_nothing_is_picked(honest: Path) -> None:
    done = replaying.replay(read_campaign(honest), episodes=7, beacon=BEACON)
    assert (done.simulated, done.beacon) == (6, None)


@pytest.mark.parametrize(
    "arguments",
    [("--replay", "0"), ("--replay", "-1"), ("--replay", "some"), ("--replay", "3", "--beacon", "ab"),
     ("--beacon", "0" * 64), ("--replay", "all", "--beacon", "0" * 64)],
)  # fmt: skip
def test_what_asks_for_no_replay_that_could_be_done_is_refused(
    honest: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...]
) -> None:
    code, document = told(capsys, honest, *arguments)
    assert (code, document["error"]) == (2, "usage")


def test_two_workers_find_what_one_finds_and_progress_counts_attempts(forger: Forger) -> None:
    forger.edit_trace(SCRIPTED, edited_action(3, 0.5))
    forger.edit_trace("000005-0", edited_action(1, 0.5))
    forger.seal()
    view = read_campaign(forger.folder)
    seen: list[tuple[int, int]] = []
    one = replaying.replay(view)
    two = replaying.replay(view, workers=2, progress=lambda done, total: seen.append((done, total)))
    assert one == two and one.different == 2
    assert seen[0] == (0, 6) and seen[-1] == (6, 6) and sorted(seen) == seen


def test_a_worker_that_dies_is_said_and_is_no_finding(honest: Path) -> None:
    view = read_campaign(honest)
    lock = {**view.lock_document, "suite": {**view.lock_document["suite"], "name": "elsewhere"}}
    with pytest.raises(HarnessFault, match="worker of the replay died"):
        replaying.repeat_rows(replace(view, lock_document=lock), view.rows, workers=2)


def test_attempts_that_broke_are_replayed_as_far_as_they_went_and_those_without_a_recording_are_counted(
    tmp_path: Path,
) -> None:
    folder = campaign(
        tmp_path, "toy-faults", "fault-none", "fault-step-refused", "fault-step-raises", "fault-reset-fault"
    )
    verdict = exam.verify(folder, replay="all")
    assert verdict.findings == ()
    assert verdict.replay is not None
    assert verdict.replay.document()["left_nothing"] == dict.fromkeys(
        ("000002-0", "000003-0"), "nothing was recorded: reset_failed"
    )
    assert "replayed 6 of 8 episodes: none differ; 2 picked left no recording to replay" in assurance(verdict)


# -- with real physics -----------------------------------------------------------------------------------------


@pytest.mark.slow
def test_row_41_an_edited_action_of_the_arm_is_named_in_physics_too(tmp_path: Path) -> None:
    names = [scenario.id for scenario in load_suite("pick-place").scenarios()]
    folder = campaign(tmp_path, "pick-place", names[0], names[-1], control="oracle")
    assert exam.verify(folder, replay="all", workers=2).exit_code == 0
    forger = Forger(folder, clock=system_clock)
    forger.edit_trace(SCRIPTED, lambda trace: replace(trace, action=trace.action + 1e-9 * (trace.action < 0.5)))
    forger.seal()
    api.score(folder)
    assert exam.verify(folder).exit_code == 0
    verdict = exam.verify(folder, replay="all")
    assert verdict.exit_code == 1
    first = verdict.findings[0]
    assert first.code == "replay_mismatch" and first.pointer == "/state_sha256/1"
    assert "of what is measured" in first.found


@pytest.mark.slow
def test_row_42_the_lock_of_physics_names_library_and_compiled_models(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from trialplate.suites.pick_place.world import environment

    folder = campaign(tmp_path, "pick-place", load_suite("pick-place").scenarios()[0].id)
    here = environment.simulator_identity()
    assert all(len(here[name]) == 64 for name in ("library_sha256", "models_sha256"))
    others = {"version": "3.17.0", "library_sha256": "1" * 64, "models_sha256": "2" * 64}
    monkeypatch.setattr(environment, "simulator_identity", lambda: {**here, **others})
    verdict = exam.verify(folder, replay="all")
    assert verdict.exit_code == 3
    assert {item.pointer: (item.expected, item.found) for item in verdict.findings} == {
        f"/simulator/{name}": (here[name], value) for name, value in others.items()
    }
