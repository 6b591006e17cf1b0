"""Collections as tables, zips, copies and links, and back: no unsafe name, nothing written over, what is gone said."""

import csv
import io
import json
import os
import subprocess
import zipfile

import numpy as np
import pytest

from smoothap.album import Album, collection_export
from smoothap.album.collection_export import as_csv, as_json, copy_originals, originals, pack, zip_pieces, zip_size
from smoothap.album.collection_import import ids_of, import_collections

ODD_NAMES = [
    "a/photo.jpg", "b/PHOTO.jpg", "c/photo.jpg", "=2+2.png", "CON.jpg", 'q?"<*>|:\\.jpg', ".hidden.jpg",
    "ends. ", "\u202egpj.exe.jpg",
    "x" * 240 + ".jpeg", "z/" + "\u00e9" * 110 + ".jpg", os.fsdecode(b"\xff.jpg"),
]  # fmt: skip


@pytest.fixture
def odd(tmp_path):
    """An album of files with names that some system does not take."""
    root = tmp_path / "odd"
    for number, name in enumerate(ODD_NAMES):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(f"photo {number}".encode() * (number + 1))
    metadata = [{"path": name, "label": "=label" if name[0] == "=" else None} for name in ODD_NAMES]
    made = Album.from_arrays(np.eye(len(ODD_NAMES)), metadata, tmp_path / "odd-album", root=root)
    made.collections.add("all of it", range(len(ODD_NAMES)))
    return made


def all_of(album):
    return list(album.collections.all().values())


def test_names_outside_are_safe_on_any_system_and_each_is_one_photos(odd):
    chosen = originals(odd, all_of(odd))
    names = [original.name for original in chosen.files]
    assert names[:3] == ["photo.jpg", "PHOTO (2).jpg", "photo (3).jpg"]
    assert len({name.casefold() for name in names}) == len(ODD_NAMES)
    for name in names:
        assert len(name.encode()) <= 200
        assert name.isprintable()
        assert not set(name) & set('<>:"/\\|?*')
        assert name[0] != "."
        assert name[-1] not in ". "
        assert name.partition(".")[0].upper() != "CON"
    assert names[9].endswith(".jpeg")


def test_a_photo_that_is_named_twice_is_taken_out_once(odd):
    assert [original.name for original in originals(odd, ids=[1, 0, 1]).files] == ["PHOTO.jpg", "photo (2).jpg"]


def test_a_zip_has_the_size_that_was_said_and_every_byte_in_it(odd, tmp_path):
    chosen = originals(odd, all_of(odd))
    content = b"".join(zip_pieces(chosen))
    assert len(content) == zip_size(chosen)
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        assert archive.testzip() is None
        for original in chosen.files:
            assert archive.read(original.name) == original.file.read_bytes()
    file = pack(chosen, tmp_path / "out" / "all.zip", progress=False)
    assert file.read_bytes() == content
    assert subprocess.run(["python3", "-m", "zipfile", "-t", file], capture_output=True, check=False).returncode == 0


@pytest.mark.parametrize("limit", [10, 150, 700])
def test_the_size_is_right_also_where_numbers_of_32_bits_end(odd, monkeypatch, limit):
    monkeypatch.setattr(zipfile, "ZIP64_LIMIT", limit)  # as if files were larger than 2 GB
    chosen = originals(odd, all_of(odd))
    content = b"".join(zip_pieces(chosen))
    assert len(content) == zip_size(chosen)
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        assert archive.testzip() is None


def test_more_files_than_16_bits_count(odd, monkeypatch):
    monkeypatch.setattr(zipfile, "ZIP_FILECOUNT_LIMIT", 5)
    chosen = originals(odd, all_of(odd))
    assert len(b"".join(zip_pieces(chosen))) == zip_size(chosen)


def test_a_photo_that_changes_while_it_is_packed_stops_the_zip(odd):
    chosen = originals(odd, all_of(odd))
    pieces = zip_pieces(chosen)
    next(pieces)
    chosen.files[3].file.write_bytes(b"shorter")
    with pytest.raises(ValueError, match="changed while it was packed"):
        list(pieces)


def test_copies_and_links_write_over_nothing_and_are_made_once(odd, tmp_path):
    chosen, folder = originals(odd, all_of(odd)), tmp_path / "copies"
    folder.mkdir()
    (folder / "photo.jpg").write_bytes(b"another photo of this name")
    report = copy_originals(chosen, folder, progress=False)
    assert (report.copied, report.already_there, report.missing) == (len(ODD_NAMES), 0, {})
    assert (folder / "photo.jpg").read_bytes() == b"another photo of this name"
    contents = {file.read_bytes() for file in folder.iterdir()}
    assert contents == {original.file.read_bytes() for original in chosen.files} | {b"another photo of this name"}
    again = copy_originals(chosen, folder, progress=False)
    assert (again.copied, again.already_there) == (0, len(ODD_NAMES))
    links = tmp_path / "links"
    assert copy_originals(chosen, links, links=True, progress=False).copied == len(ODD_NAMES)
    assert {file.resolve() for file in links.iterdir()} == {original.file.resolve() for original in chosen.files}
    assert copy_originals(chosen, links, links=True, progress=False).already_there == len(ODD_NAMES)


def test_originals_that_are_gone_are_named_and_the_others_come(odd, tmp_path):
    first = odd.photo_path(0)
    first.unlink()
    chosen = originals(odd, all_of(odd))
    assert chosen.missing == {"a/photo.jpg": "no such file or directory"}
    second = odd.photo_path(1)
    second.unlink()  # gone between the list and the copy
    report = copy_originals(chosen, tmp_path / "copies", progress=False)
    assert set(report.missing) == {"a/photo.jpg", "b/PHOTO.jpg"}
    assert report.copied == len(ODD_NAMES) - 2


def test_a_link_out_of_the_photo_folder_is_not_followed(odd, tmp_path):
    (tmp_path / "secret.jpg").write_bytes(b"secret")
    file = odd.photo_path(0)
    file.unlink()
    file.symlink_to(tmp_path / "secret.jpg")
    chosen = originals(odd, all_of(odd))
    assert "leads out of the photo folder" in chosen.missing["a/photo.jpg"]


def test_a_disk_without_room_is_told_before(odd, tmp_path, monkeypatch):
    monkeypatch.setattr(collection_export.shutil, "disk_usage", lambda _: Room())
    with pytest.raises(ValueError, match=r"take 569 bytes, and there are 10 bytes free"):
        copy_originals(originals(odd, all_of(odd)), tmp_path / "copies")
    with pytest.raises(ValueError, match="10 bytes free"):
        pack(originals(odd, all_of(odd)), tmp_path / "all.zip")
    assert not (tmp_path / "copies").exists()


class Room:
    free = 10


def test_several_collections_are_several_folders(album, tmp_path):
    album.collections.put([("dog", [0, 1], [2]), ("a/b", [0], [])], "test")
    copy_originals(originals(album, all_of(album)), tmp_path / "out", progress=False)
    names = sorted(file.relative_to(tmp_path / "out").as_posix() for file in (tmp_path / "out").rglob("*.png"))
    kept = [album.photo(identity).path.rpartition("/")[2] for identity in (0, 1)]
    assert names == sorted([f"dog/{kept[0]}", f"dog/{kept[1]}", f"a_b/{kept[0]}"])


def test_a_table_steers_no_spreadsheet_and_says_everything(odd):
    rows = list(csv.DictReader(io.StringIO(as_csv(odd, all_of(odd)).decode(errors="surrogateescape"), newline="")))
    assert [row["path"].removeprefix("'") for row in rows] == ODD_NAMES
    assert not any(cell.startswith(("=", "+", "-", "@")) for row in rows for cell in row.values())


@pytest.mark.parametrize("form", ["csv", "json"])
def test_what_is_exported_as_a_list_is_imported_again(album, tmp_path, form):
    album.collections.put([("dog", [3, 1], [2]), ("-cat", [1], [])], "test")
    file = tmp_path / f"list.{form}"
    file.write_bytes({"csv": as_csv, "json": as_json}[form](album, all_of(album)))
    before = {name: (one.right, one.wrong) for name, one in album.collections.all().items()}
    for name in before:
        album.collections.delete(name)
    report = import_collections(album, file, progress=False)
    assert {name: (one.right, one.wrong) for name, one in album.collections.all().items()} == before
    assert report.photos == {"dog": 3, "-cat": 1}
    album.collections.undo()
    assert album.collections.all() == {}


def test_a_list_of_names_that_are_no_utf_8_comes_back(odd, tmp_path):
    (tmp_path / "list.csv").write_bytes(as_csv(odd, all_of(odd)))
    odd.collections.delete("all of it")
    import_collections(odd, tmp_path / "list.csv", progress=False)
    assert odd.collections["all of it"].right == tuple(range(len(ODD_NAMES)))


def test_folders_of_photos_are_imported_by_where_they_lie_and_by_their_content(album, photos, tmp_path):
    folders = tmp_path / "sorted"
    (folders / "dog" / "old").mkdir(parents=True)
    (folders / "cat").mkdir()
    (folders / "dog" / "renamed.png").write_bytes((photos / "class0" / "000.png").read_bytes())
    (folders / "dog" / "old" / "link.png").symlink_to(photos / "class1" / "001.png")
    (folders / "dog" / "stranger.png").write_bytes(b"not in the album")
    (folders / "cat" / "notes.txt").write_text("no photo")
    (folders / "beside.png").write_bytes(b"")
    report = import_collections(album, folders, progress=False)
    assert report.photos == {"dog": 2}
    assert report.unknown == [str(folders / "dog" / "stranger.png")]
    assert report.beside == 1
    paths = {album.photo(identity).path for identity in album.collections["dog"].right}
    assert paths == {"class0/000.png", "class1/001.png"}
    assert import_collections(album, photos, progress=False).photos == {f"class{label}": 4 for label in range(3)}


def test_a_table_of_another_program_is_taken_with_paths_from_its_own_folder(album, photos):
    file = photos / "class0" / "mine.csv"
    file.write_text("path,collection\n000.png,dog\n../class1/001.png,dog\nclass2/002.png,cat\nnowhere.png,cat\n")
    report = import_collections(album, file, progress=False)
    assert report.photos == {"dog": 2, "cat": 1}
    assert report.unknown == ["nowhere.png"]


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("photo,label\na,b\n", "no columns collection and path, but 'photo', 'label'"),
        ("collection,path,mark\ndog,class0/000.png,maybe\n", "line 2: mark is right or wrong, not 'maybe'"),
        ("collection,path\ndog,nowhere.png\n", "None of its 1 photos, such as 'nowhere.png', is in the album"),
        ('collection,path\n"dog,a\n', "is no table"),
    ],
)
def test_a_table_that_cannot_be_taken_changes_nothing(album, tmp_path, content, sentence):
    (tmp_path / "mine.csv").write_text(content)
    with pytest.raises(ValueError, match=sentence):
        import_collections(album, tmp_path / "mine.csv", progress=False)
    assert album.collections.all() == {}


def test_json_of_another_program_is_refused(album, tmp_path):
    (tmp_path / "mine.json").write_text(json.dumps([1]))
    with pytest.raises(ValueError, match="no JSON that smoothap album collections exported"):
        import_collections(album, tmp_path / "mine.json", progress=False)


def test_photos_are_found_by_file_by_album_path_and_by_content(album, photos, tmp_path, monkeypatch):
    (tmp_path / "copy.png").write_bytes((photos / "class1" / "004.png").read_bytes())
    monkeypatch.chdir(photos / "class2")
    known = ids_of(album, ["002.png", "class0/000.png", tmp_path / "copy.png", "nowhere.png"], progress=False)
    paths = [None if identity is None else album.photo(identity).path for identity in known.values()]
    assert paths == ["class2/002.png", "class0/000.png", "class1/004.png", None]
