import errno
import os
import signal
from pathlib import Path

import pytest

from smoothap._core.files import locked, write_atomically


def test_a_writer_that_fails_leaves_the_old_file_and_no_litter(tmp_path):
    (tmp_path / "file").write_text("old")

    def fail(path):
        path.write_text("half")
        raise OSError("No space left on device")

    with pytest.raises(OSError, match="No space"):
        write_atomically(tmp_path / "file", fail)
    assert (tmp_path / "file").read_text() == "old"
    assert len(list(tmp_path.iterdir())) == 1


def test_the_data_is_on_the_disk_before_its_name_is(tmp_path, monkeypatch):
    events = []
    sync, replace = os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda descriptor: (events.append("sync"), sync(descriptor))[1])
    monkeypatch.setattr(os, "replace", lambda *paths: (events.append("rename"), replace(*paths))[1])
    write_atomically(tmp_path / "file", "new")
    assert events == ["sync", "rename", "sync"]


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_is_told_with_the_folder_and_what_stays(tmp_path, monkeypatch, number):
    def full(path, content):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(OSError, match=r"The disk is full: new could not be written to .*, nothing of it") as raised:
        write_atomically(tmp_path / "new", b"content")
    assert raised.value.errno == number
    (tmp_path / "old").write_text("old")
    with pytest.raises(OSError, match=r"^The disk is full: old could not be written to .*, the older one stays\."):
        write_atomically(tmp_path / "old", b"content")


def test_a_folder_has_one_writer_at_a_time(tmp_path):
    with locked(tmp_path, "Wait."), pytest.raises(ValueError, match="Wait"), locked(tmp_path, "Wait."):
        pass
    with locked(tmp_path, "Wait."):
        pass


def test_a_child_process_does_not_keep_the_lock_of_its_parent(tmp_path):
    reads, writes = os.pipe()
    with locked(tmp_path, "Wait."):
        child = os.fork()
        if child == 0:
            os.write(writes, b"here")
            signal.pause()
        assert os.read(reads, 4) == b"here"
    try:
        with locked(tmp_path, "Wait."):  # the parent let go, and the child never held it
            pass
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(reads)
        os.close(writes)


def test_a_child_process_can_lock_what_its_parent_let_go(tmp_path):
    reads, writes = os.pipe()
    with locked(tmp_path, "Wait."):
        child = os.fork()
        if child == 0:
            os.read(reads, 2)
            with locked(tmp_path, "Wait."):
                os._exit(7)
    os.write(writes, b"go")
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    os.close(reads)
    os.close(writes)


def test_a_disk_without_locks_can_be_written_to(tmp_path, monkeypatch):
    def without_locks(lock, operation):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr("fcntl.lockf", without_locks)
    with locked(tmp_path, "Wait."):
        (tmp_path / "file").write_text("written")
