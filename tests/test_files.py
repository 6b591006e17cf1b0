import os

import pytest

from smoothap.files import write_atomically


@pytest.mark.parametrize("content", [b"bytes", "text", lambda path: path.write_text("written")])
def test_the_new_content_stands_where_it_was_asked(tmp_path, content):
    path = write_atomically(tmp_path / "deep" / "file", content)
    assert path.read_text() in ("bytes", "text", "written")
    assert [each.name for each in path.parent.iterdir()] == ["file"]


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


def test_a_new_file_has_the_permissions_of_any_other(tmp_path):
    (tmp_path / "plain").write_text("")
    written = write_atomically(tmp_path / "file", "")
    assert written.stat().st_mode == (tmp_path / "plain").stat().st_mode
