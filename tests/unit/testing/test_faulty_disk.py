"""The disk in memory behaves as a real one does, and loses exactly what a real one may lose."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from golden import snapshot
from trialplate.errors import StorageFailure, TrialplateError, UsageError
from trialplate.store.fsio import Disk, Storage, publish_new, write_new
from trialplate.testing import FaultyDisk
from trialplate.testing.faulty_disk import FATES, Fault, ProcessEnded

TOP = Path("/c")
F, G = TOP / "f", TOP / "g"


def _disk(fault: Fault | None = None) -> FaultyDisk:
    """A disk with an empty, durable folder ``/c``; the fault counts from behind it."""
    disk = FaultyDisk()
    disk.make_folder(TOP)
    return disk.next_process(fault=fault)


def _left(disk: FaultyDisk, *, seeds: int = 60, **fates: str) -> set[bytes | None]:
    """Everything that ``f`` can hold after a power cut; None when it is not there."""
    return {disk.after_power_cut(seed=seed, **fates).tree(TOP).get("f") for seed in range(seeds)}  # type: ignore[arg-type]


# -- as a real disk --------------------------------------------------------------------------------------------

NAMES = st.sampled_from(["a", "b", "d", "d/a", "d/b", "e/a"])
OPERATIONS = st.one_of(
    st.tuples(st.just("write_new"), NAMES, st.binary(max_size=5)),
    st.tuples(st.just("publish_new"), NAMES, st.binary(max_size=5)),
    st.tuples(st.just("replace"), NAMES, st.binary(max_size=5)),
    st.tuples(st.just("append"), NAMES, st.binary(max_size=5)),
    st.tuples(st.just("cut"), NAMES, st.integers(0, 6)),
    st.tuples(st.just("rename"), NAMES, NAMES),
    st.tuples(st.just("rename_noreplace"), NAMES, NAMES),
    st.tuples(st.just("remove"), NAMES, st.none()),
    st.tuples(st.just("make_folder"), NAMES, st.none()),
    st.tuples(st.just("read"), NAMES, st.none()),
    st.tuples(st.just("entries"), NAMES, st.none()),
)


def _do(disk: Storage, top: Path, operation: tuple[str, str, object]) -> object:
    """Carry out one operation; return what came back, or the kind of failure."""
    name, path, argument = operation[0], top / operation[1], operation[2]
    try:
        if name in ("write_new", "publish_new"):
            {"write_new": write_new, "publish_new": publish_new}[name](disk, path, argument)  # type: ignore[operator]
        elif name in ("append", "cut"):
            descriptor = disk.open_append(path)
            if isinstance(argument, bytes):
                disk.write_all(descriptor, argument)
            elif isinstance(argument, int) and argument <= len(disk.read(path)):
                disk.truncate(descriptor, argument)
            disk.close(descriptor)
        elif name in ("rename", "rename_noreplace"):
            getattr(disk, name)(path, top / str(argument))
        elif name == "replace":
            disk.replace(path, argument)  # type: ignore[arg-type]
        else:
            return getattr(disk, name)(path)
    except TrialplateError as error:
        return type(error), error.message.rpartition("(")[2].partition(")")[0]
    return None


@settings(max_examples=150, deadline=None)
@given(st.lists(OPERATIONS, max_size=12))
@example([("write_new", "a", b""), ("rename_noreplace", "b", "a")])
@example([("make_folder", "a", None), ("rename_noreplace", "b", "a"), ("rename", "b", "a")])
@example([("write_new", "a", b""), ("write_new", "b", b"b"), ("rename_noreplace", "a", "b")])
def test_every_sequence_of_operations_ends_as_on_a_real_disk(operations: list[tuple[str, str, object]]) -> None:
    memory = _disk()
    with TemporaryDirectory() as folder:
        real = Path(folder)
        for operation in operations:
            if operation[0].startswith("rename") and (
                operation[1] == operation[2] or "/" in operation[1] + str(operation[2])
            ):
                continue  # a folder into itself: refused by other numbers on other systems
            assert _do(memory, TOP, operation) == _do(Disk(), real, operation), operation
        assert memory.tree(TOP) == dict(snapshot(real))


def test_it_can_be_written_out_and_looks_the_same(tmp_path: Path) -> None:
    disk = _disk()
    disk.make_folder(TOP / "x" / "y")
    write_new(disk, TOP / "x" / "y" / "f", b"content")
    disk.export(TOP, tmp_path / "out")
    assert dict(snapshot(tmp_path / "out")) == disk.tree(TOP) == {"x/y/f": b"content"}


# -- a power cut -----------------------------------------------------------------------------------------------


def test_a_synced_file_with_a_synced_name_is_always_left() -> None:
    disk = _disk()
    write_new(disk, F, b"content")
    disk.fsync_dir(TOP)
    assert _left(disk) == {b"content"}


def test_a_name_that_was_not_synced_is_left_or_not_and_its_file_is_never_half() -> None:
    disk = _disk()
    write_new(disk, F, b"content")
    assert _left(disk) == {None, b"content"}
    assert _left(disk, names="lost") == {None}
    assert _left(disk, names="kept") == {b"content"}


def test_bytes_that_were_not_synced_are_lost_kept_cut_or_zeros_and_nothing_else() -> None:
    disk = _disk()
    write_new(disk, F, b"old")
    disk.fsync_dir(TOP)
    descriptor = disk.open_append(F)
    disk.write_all(descriptor, b"NEW")
    disk.write_all(descriptor, b"ER")
    assert _left(disk, files="lost") == {b"old"}
    assert _left(disk, files="kept") == {b"oldNEWER"}
    assert _left(disk, files="zeroed") == {b"old\0\0\0\0\0"}
    cuts = {b"oldNEWER"[:end] for end in range(3, 9)}
    assert _left(disk, files="cut") == cuts
    holes = _left(disk, files="hole")
    assert {len(left or b"") for left in holes} == {8} and b"old\0EWER" in holes and b"oldNEW\0R" in holes
    assert _left(disk) <= cuts | holes | {b"old\0\0\0\0\0"}
    disk.fsync(descriptor)
    assert _left(disk) == {b"oldNEWER"}


def test_a_cut_that_was_not_synced_is_left_or_not() -> None:
    disk = _disk()
    write_new(disk, F, b"content")
    disk.fsync_dir(TOP)
    disk.truncate(disk.open_append(F), 3)
    assert _left(disk, files="lost") == {b"content"}
    assert _left(disk, files="kept") == {b"con"}


def test_of_several_renames_any_subset_is_left() -> None:
    disk = _disk()
    for name in ("f.tmp", "g.tmp"):
        write_new(disk, TOP / name, name.encode())
    disk.fsync_dir(TOP)
    kernel = disk._kernel  # the durable rename syncs by itself
    kernel.rename(TOP / "f.tmp", F)
    kernel.rename(TOP / "g.tmp", G)
    seen = {tuple(sorted(disk.after_power_cut(seed=seed).tree(TOP))) for seed in range(40)}
    assert seen == {("f", "g"), ("f", "g.tmp"), ("f.tmp", "g"), ("f.tmp", "g.tmp")}


def test_a_move_between_folders_is_whole_or_not_there_and_needs_both_synced() -> None:
    disk = _disk()
    disk.make_folder(TOP / "x")
    write_new(disk, F, b"content")
    disk.fsync_dir(TOP)
    disk._kernel.rename(F, TOP / "x" / "f")
    disk.fsync_dir(TOP / "x")
    assert {tuple(disk.after_power_cut(seed=seed).tree(TOP)) for seed in range(30)} == {("f",), ("x/f",)}
    disk.fsync_dir(TOP)
    assert {tuple(disk.after_power_cut(seed=seed).tree(TOP)) for seed in range(30)} == {("x/f",)}


def test_what_lies_in_a_folder_whose_name_was_lost_is_lost() -> None:
    disk = _disk()
    disk._kernel.mkdir(TOP / "x")
    write_new(disk, TOP / "x" / "f", b"content")
    disk.fsync_dir(TOP / "x")
    assert disk.after_power_cut(names="lost").tree(TOP) == {}
    assert disk.after_power_cut(names="kept").tree(TOP) == {"x/f": b"content"}


def test_a_failed_sync_is_not_made_good_by_the_next_one() -> None:
    disk = _disk(Fault(at=2, action="fail", number=errno.EIO))
    descriptor = disk.open_new(F)
    disk.write_all(descriptor, b"doomed")
    with pytest.raises(StorageFailure, match=r"fsync /c/f: .*EIO"):
        disk.fsync(descriptor)
    disk.write_all(descriptor, b" sound")
    disk.fsync(descriptor)
    disk.fsync_dir(TOP)
    assert disk.read(F) == b"doomed sound", "a program reads what the kernel still remembers"
    assert _left(disk, files="lost") == {b"\0\0\0\0\0\0 sound"}
    assert _left(disk, files="kept") == {b"doomed sound"}


def test_the_same_seed_leaves_the_same_and_the_disk_itself_stays_as_it_is() -> None:
    disk = _disk()
    descriptor = disk.open_new(F)
    disk.write_all(descriptor, b"a long content that can be cut at many places")
    before = disk.tree(TOP)
    assert len({tuple(disk.after_power_cut(seed=5).tree(TOP).items()) for _ in range(5)}) == 1
    assert disk.tree(TOP) == before
    assert len(_left(disk)) > 5


def test_a_second_power_cut_loses_nothing_of_what_survived_the_first() -> None:
    disk = _disk()
    disk.write_all(disk.open_new(F), b"content")
    for seed in range(30):
        once = disk.after_power_cut(seed=seed)
        assert once.after_power_cut(files="lost", names="lost").tree(TOP) == once.tree(TOP)


def test_half_a_name_is_refused() -> None:
    with pytest.raises(UsageError, match="cannot be left in part"):
        _disk().after_power_cut(names="cut")


# -- faults ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO, errno.EACCES], ids=errno.errorcode.get)
def test_every_call_of_a_write_can_fail_and_names_the_path(number: int) -> None:
    whole = _disk()
    publish_new(whole, F, b"content")
    for at, call in enumerate(whole.calls):
        disk = _disk(Fault(at=at, action="fail", number=number))
        with pytest.raises(StorageFailure) as caught:
            publish_new(disk, F, b"content")
        assert str(TOP) in caught.value.message and errno.errorcode[number] in caught.value.message, call
        assert disk.tree(TOP).get("f") in (None, b"content")


def test_a_short_write_goes_on_and_a_full_disk_keeps_half_and_stays_full() -> None:
    short = _disk(Fault(at=1, action="short"))
    write_new(short, F, b"content")
    assert short.tree(TOP) == {"f": b"content"}
    full = _disk(Fault(at=1, action="fill", number=errno.ENOSPC))
    for path in (F, G):
        with pytest.raises(StorageFailure, match="disk is full"):
            write_new(full, path, b"contents")
    assert full.tree(TOP) == {"f": b"cont", "g": b""}
    write_new(full.next_process(), TOP / "h", b"room again")


def test_nothing_runs_after_the_end_of_a_process() -> None:
    disk = _disk(Fault(at=1))
    descriptor = disk.open_new(F)
    for call in (lambda: disk.write_all(descriptor, b"x"), lambda: disk.close(descriptor), lambda: disk.read(F)):
        with pytest.raises(ProcessEnded):
            call()
    assert disk.tree(TOP) == {"f": b""}
    torn = _disk(Fault(at=1, action="tear"))
    with pytest.raises(ProcessEnded):
        write_new(torn, F, b"contents")
    assert torn.next_process().read(F) == b"cont"


@pytest.mark.parametrize("end", [FaultyDisk.next_process, FaultyDisk.after_power_cut], ids=["killed", "power"])
def test_a_lock_is_held_against_other_processes_and_free_after_the_end(
    end: Callable[[FaultyDisk], FaultyDisk],
) -> None:
    disk = _disk()
    publish_new(disk, F, b"")
    disk.lock(disk.open_append(F))
    other = disk.beside()
    descriptor = other.open_append(F)
    with pytest.raises(UsageError) as caught:
        other.lock(descriptor)
    assert caught.value.code == "campaign_busy"
    later = end(disk)
    later.lock(later.open_append(F))


def test_a_kernel_that_cannot_lock_is_refused() -> None:
    disk = _disk(Fault(at=1, action="fail", number=errno.ENOLCK))
    descriptor = disk.open_new(F)
    with pytest.raises(UsageError) as caught:
        disk.lock(descriptor)
    assert caught.value.code == "no_flock"


def test_every_fate_is_drawn() -> None:
    assert set(FATES) == {"lost", "kept", "cut", "zeroed", "hole"}
