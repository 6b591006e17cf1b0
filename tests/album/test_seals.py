"""Each part of an album is said in a file of its own: costs do not grow, and readers see one version, old or new."""

from dataclasses import replace

import numpy as np
import pytest
from photo_makers import photo_bytes
from smoothap.album.description import Description, Part, Segment, read_description, read_head, write_description
from smoothap.album.parts import PartUpdate, Share, settle_album
from smoothap.album.walking import walk

from smoothap._core.files import ChecksummedJson
from smoothap.album import Album, _seals, description
from smoothap.models import Embedder


def count_in(folder, part, rows=7):
    """Describe one part, as the writer that has computed it does; its files are not asked for here."""
    there = read_description(folder, part)
    number = there.next_segment
    segment = Segment(number, rows, f"v{number}", f"p{number}", part=part.name)
    parts = (*(each for each in there.parts if each.name != part.name), part)
    segments = (*(each for each in there.segments if each.part != part.name), segment)
    write_description(folder, replace(there, segments=segments, parts=parts, next_segment=number + 1))


def rows_of(folder):
    return {segment.part: segment.rows for segment in read_description(folder).segments}


def test_counting_in_reads_and_writes_the_same_with_few_parts_and_with_many(tmp_path, monkeypatch):
    write_description(tmp_path, Description(4))
    touched, sizes = [], []
    for name in ("read", "write"):
        whole = getattr(ChecksummedJson, name)
        monkeypatch.setattr(
            ChecksummedJson,
            name,
            lambda self, file, *rest, whole=whole: touched.append(file) or whole(self, file, *rest),
        )
    for number in range(1, 201):
        touched.clear()
        count_in(tmp_path, Part(number, 200, 7, 7))
        sizes.append((len(touched), (tmp_path / "album.json").stat().st_size))
    assert len(read_description(tmp_path).parts) == 200
    assert {files for files, _ in sizes[2:]} == {sizes[2][0]}
    assert max(size for _, size in sizes) < sizes[0][1] + 30


def test_a_reader_sees_one_version_while_parts_are_counted_in(tmp_path, monkeypatch):
    write_description(tmp_path, Description(4))
    for number in (1, 2, 3):
        count_in(tmp_path, Part(number, 5), rows=number)
    before = read_description(tmp_path)
    read = _seals.Sealed.read

    def overtaken(self, folder, *rest):
        monkeypatch.setattr(_seals.Sealed, "read", read)
        for number in (4, 2, 1):  # the last of these is in album.json alone
            count_in(tmp_path, Part(number, 5), rows=10 * number)
        return read(self, folder, *rest)

    monkeypatch.setattr(_seals.Sealed, "read", overtaken)
    assert read_description(tmp_path) == before
    assert rows_of(tmp_path) == {"1/5": 10, "2/5": 20, "3/5": 3, "4/5": 40}


def test_a_reader_that_is_overtaken_twice_begins_anew(tmp_path, monkeypatch):
    write_description(tmp_path, Description(4))
    count_in(tmp_path, Part(1, 2), rows=1)
    count_in(tmp_path, Part(2, 2), rows=2)
    read = _seals.Sealed.read

    def overtaken(self, folder, *rest):
        monkeypatch.setattr(_seals.Sealed, "read", read)
        for rows in (10, 20, 30):
            count_in(tmp_path, Part(1, 2), rows=rows)
        return read(self, folder, *rest)

    monkeypatch.setattr(_seals.Sealed, "read", overtaken)
    assert rows_of(tmp_path) == {"1/2": 30, "2/2": 2}


def test_a_change_of_all_parts_counts_from_one_moment_to_the_next(tmp_path, monkeypatch):
    write_description(tmp_path, Description(4))
    for number in (1, 2, 3):
        count_in(tmp_path, Part(number, 3))
    before = read_description(tmp_path)
    changed = replace(before, segments=tuple(replace(each, rows=each.rows + 1) for each in before.segments))

    def stopped(self, file, values):
        if file.name == "album.json":
            raise KeyboardInterrupt
        whole(self, file, values)

    with monkeypatch.context() as patched:
        whole = ChecksummedJson.write
        patched.setattr(ChecksummedJson, "write", stopped)
        with pytest.raises(KeyboardInterrupt):
            write_description(tmp_path, changed)
    assert read_description(tmp_path) == before
    write_description(tmp_path, changed)
    assert read_description(tmp_path) == changed
    write_description(tmp_path, replace(read_head(tmp_path), source="elsewhere"))  # knows of no parts, and leaves them
    assert read_description(tmp_path) == replace(changed, source="elsewhere")


def test_a_file_of_a_part_that_is_lost_or_anothers_is_an_error(tmp_path):
    write_description(tmp_path, Description(4))
    for number in (1, 2, 3):
        count_in(tmp_path, Part(number, 3))
    file = tmp_path / "parts" / "000003" / "000001.json"
    content = file.read_bytes()
    file.unlink()
    with pytest.raises(ValueError, match=r"Some parts of the album .* are missing"):
        read_description(tmp_path)
    file.write_bytes((tmp_path / "parts" / "000003" / "000002.json").read_bytes())
    with pytest.raises(ValueError, match="describes part 2/3"):
        read_description(tmp_path)
    values = {"version": 1, "part": {"number": 1}, "segments": [], "before": None}
    for changes in ({}, {"segments": [1]}, {"before": {}, "version": 99}, {"before": {"version": "1"}, "version": 99}):
        _seals._SEALED.write(file, {**values, **changes})
        with pytest.raises(ValueError, match="does not describe a part"):
            read_description(tmp_path)
    file.write_bytes(content)
    assert len(read_description(tmp_path).parts) == 3


@pytest.mark.parametrize("groups", [{"../../other": 1}, {"000003": -1}, {"000003": True}, {"": 1}, [], {"000003": "1"}])
def test_a_folder_of_parts_lies_in_the_album(tmp_path, groups):
    write_description(tmp_path, Description(4))
    values = description._SEALED.read(tmp_path / "album.json")
    description._SEALED.write(tmp_path / "album.json", {**values, "sealed": {"version": 1, "groups": groups}})
    with pytest.raises(ValueError, match="does not describe an album"):
        read_description(tmp_path)


def test_an_album_whose_description_lists_its_parts_opens_and_goes_on(tmp_path):
    """As albums of earlier versions do."""
    write_description(tmp_path, Description(4))
    segments = [{"number": n, "rows": n, "vectors": "v", "photos": "p", "part": f"{n}/3"} for n in (1, 2)]
    parts = [{"number": n, "of": 3, "given": n, "indexed": n, "reported": 0} for n in (1, 2)]
    values = description._SEALED.read(tmp_path / "album.json")
    values |= {"segments": [*segments, {**segments[0], "number": 3, "part": "1/9"}], "parts": parts, "next_segment": 4}
    description._SEALED.write(tmp_path / "album.json", values)
    assert rows_of(tmp_path) == {"1/3": 1, "2/3": 2, None: 1}  # a part that is not listed is none
    count_in(tmp_path, Part(3, 3), rows=3)
    assert rows_of(tmp_path) == {"1/3": 1, "2/3": 2, "3/3": 3, None: 1}
    assert [part.given for part in read_description(tmp_path).parts] == [1, 2, 0]


def run_pieces(album, model, photos, of, *, apart=False):
    listing = walk(photos)
    for number in range(1, of + 1):
        PartUpdate(
            album, lambda: Embedder.load(model), photos, Share(number, of), listing, remove_missing=True,
            progress=False, apart=apart,
        ).run()  # fmt: skip


def test_pieces_of_a_run_are_seen_at_once_and_brought_together_at_its_end(photos, tmp_path, model, monkeypatch):
    folder = tmp_path / "album"
    Album.create(folder, model, photos)
    run_pieces(folder, model, photos, 3)
    assert len(Album.open(folder)) == 12
    assert Album.open(folder).parts == ()
    assert read_head(folder).segments == read_description(folder, Part(3, 3, loose=True)).segments
    with monkeypatch.context() as patched:  # the power goes before what no longer counts is taken away
        patched.setattr(description, "remove_group", lambda folder, group: None)
        settle_album(folder)
    assert (folder / "parts" / "000003-loose" / "000001.json").exists()
    (photos / "new.png").write_bytes(photo_bytes(99))
    (photos / "class0/000.png").unlink()
    run_pieces(folder, model, photos, 3)
    settle_album(folder)
    album = Album.open(folder)
    album.verify()
    assert sorted(album.photos.paths()) == [file.path for file in walk(photos).files]
    assert len(album._description.segments) == 1
    assert not list((folder / "parts").iterdir())


def test_parts_and_pieces_of_a_run_over_the_same_photos_are_one_album(photos, tmp_path, model):
    folder = tmp_path / "album"
    Album.create(folder, model, photos)
    run_pieces(folder, model, photos, 2, apart=True)
    ids = {photo.path: photo.id for photo in Album.open(folder).photos}
    (photos / "class0/000.png").write_bytes(photo_bytes(98))
    (photos / "new.png").write_bytes(photo_bytes(99))
    run_pieces(folder, model, photos, 2)
    run_pieces(folder, model, photos, 3, apart=True)  # what they hold of these parts is not computed again
    settle_album(folder)
    album = Album.open(folder)
    album.verify()
    assert {photo.path: photo.id for photo in album.photos} == {**ids, "new.png": 12}
    assert [part.name for part in album.parts] == ["1/2", "2/2", "1/3", "2/3", "3/3"]
    fresh = Album.create(tmp_path / "fresh", model, photos)
    fresh.update(progress=False)
    rows = [fresh.photos.paths().index(path) for path in album.photos.paths()]
    assert np.allclose(np.asarray(album.vectors), fresh.vectors[rows], atol=1e-5)
