"""People in albums: found once, searched by face, grouped as users say, and forgotten when they are asked to be."""

import itertools
import shutil
import stat

import numpy as np
import pytest
from drawn_people import COLOURS, draw, drawn_finder
from PIL import Image

from smoothap.album import Album, index_photos
from smoothap.album.faces import FaceStore
from smoothap.models.faces.people import PeopleFinder


@pytest.fixture(autouse=True)
def drawn(monkeypatch):
    monkeypatch.setattr(PeopleFinder, "open", staticmethod(drawn_finder))


@pytest.fixture
def party(tmp_path):
    """Anna in six photos, Bob in four, two of which are of both; one without anybody."""
    folder = tmp_path / "party"
    people = [("Anna",), ("Anna",), ("Anna", "Bob*"), ("Bob", "Anna*"), ("Bob",), ("Bob", "Chris*"), ("Anna",), (),
              ("Chris", "Dana*"), ("Anna", "Dana*")]  # fmt: skip
    for number, these in enumerate(people):
        draw(folder / f"{number}.png", *these, seed=number)
    return folder


def index(folder, tmp_path, model, **options):
    return index_photos(folder, tmp_path / "album", model=model, progress=False, **options)


@pytest.fixture
def people_album(party, tmp_path, model):
    return index(party, tmp_path, model, people=True).album


def names(hits):
    return {hit.path.removesuffix(".png") for hit in hits}


def group_of(album, photo, place=0):
    """The group of a face of a photo, the largest by default."""
    faces = album.face_space().faces(album)
    return album.people.group(int(faces.ids[faces.of_photo(album.photos.id_of(f"{photo}.png"))[place]]))


def bytes_below(folder):
    return b"".join(file.read_bytes() for file in sorted(folder.rglob("*")) if file.is_file())


# -- finding and searching


@pytest.mark.parametrize("rerank", [True, False])
def test_all_photos_of_a_person_are_found_each_once_with_the_box_of_the_face(people_album, party, rerank):
    hits = people_album.search(party / "0.png", k=6, space="face", rerank=rerank)
    assert names(hits) == {"0", "1", "2", "3", "6", "9"}
    assert len(hits) == 6
    boxes = {hit.path: hit.box for hit in hits}
    assert boxes["0.png"] == (8, 8, 24, 24)
    assert boxes["3.png"] == (48, 8, 12, 12)  # the small face beside Bob's
    assert [hit.rank for hit in hits] == [1, 2, 3, 4, 5, 6]
    assert all(one.score >= other.score for one, other in itertools.pairwise(hits))


def test_what_is_known_of_people_may_be_read_by_its_owner_alone(people_album):
    for place in (people_album.folder / "people", people_album.folder / "people" / "people.db"):
        assert stat.S_IMODE(place.stat().st_mode) & 0o077 == 0


def test_a_query_may_mean_another_face_than_the_largest(people_album, party):
    for query in (party / "3.png", people_album.photos.id_of("3.png"), Image.open(party / "3.png")):
        by_number = people_album.search(query, k=3, space="face", face=2, rerank=False)
        by_box = people_album.search(query, k=3, space="face", box=(46, 6, 15, 15), rerank=False)
        assert names(by_number) | names(by_box) <= {"0", "1", "2", "3", "6", "9"}
        largest = people_album.search(query, k=2, space="face", rerank=False)
        assert names(largest) <= {"2", "3", "4", "5"}


def test_a_photo_of_the_album_leaves_itself_out(people_album):
    photo = people_album.photos.id_of("0.png")
    assert names(people_album.search(photo, k=5, space="face")) == {"1", "2", "3", "6", "9"}


def test_filters_and_marks_hold_for_faces(people_album, party):
    ids = {name: people_album.photos.id_of(f"{name}.png") for name in "0123"}
    wrong = people_album.search(party / "0.png", k=9, space="face", wrong=[ids["1"]], rerank=False)
    assert "1" not in names(wrong)
    everything = people_album.search(party / "0.png", space="face", everything=True)
    assert names(everything) == set("012345689")  # but for the one without a face
    above = people_album.search(party / "0.png", space="face", min_score=0.8)
    assert names(above) == {"0", "1", "2", "3", "6", "9"}
    people_album.collections.create("mine")
    people_album.collections.add("mine", [ids["0"], ids["3"]])
    kept = people_album.search(party / "0.png", space="face", where={"collection": "mine"})
    assert names(kept) == {"0", "3"}


@pytest.mark.parametrize("times", [1, 2, 3, 4])
def test_a_box_that_is_drawn_loosely_around_somebody_means_their_face(people_album, party, times):
    middle, side = np.array([88 + 12, 8 + 12]), 24 * times
    draw(party.parent / "alone.png", "Fay", "Fay", "Anna", seed=70)
    box = (*(middle - side // 2).tolist(), side, side)
    found = people_album.search(party.parent / "alone.png", k=6, space="face", box=box, rerank=False)
    assert names(found) == {"0", "1", "2", "3", "6", "9"}
    by_id = people_album.search(
        people_album.photos.id_of("0.png"), k=5, space="face", box=(0, 0, 200, 120), rerank=False
    )
    assert names(by_id) == {"1", "2", "3", "6", "9"}


def test_a_query_without_a_face_is_told_so(people_album, party):
    said = "no face was found in it: draw a box, or search for the whole photo"
    for query in (party / "7.png", people_album.photos.id_of("7.png")):
        with pytest.raises(ValueError, match=said):
            people_album.search(query, space="face")
    with pytest.raises(ValueError, match="1 faces were found in it, counted from 1 by size, and 2 is none of them"):
        people_album.search(party / "0.png", space="face", face=2)
    with pytest.raises(ValueError, match="is not in the picture of 200 x 120 pixels"):
        people_album.search(party / "0.png", space="face", box=(500, 500, 10, 10))
    with pytest.raises(ValueError, match="is not in the picture"):
        people_album.search(party / "0.png", space="face", box=(float("nan"), 5, 10, 10))


def test_a_photo_on_its_side_is_a_query_too(people_album, party, tmp_path):
    Image.open(party / "0.png").transpose(Image.Transpose.ROTATE_90).save(tmp_path / "turned.png")
    found = people_album.search(tmp_path / "turned.png", k=6, space="face")
    assert names(found) == {"0", "1", "2", "3", "6", "9"}


def test_photos_that_were_taken_in_before_get_the_same_faces_when_people_are_asked_for(party, tmp_path, model):
    with_people = index(party, tmp_path, model, people=True).album
    wanted = with_people.face_space().faces(with_people)
    shutil.rmtree(tmp_path / "album")
    assert not index(party, tmp_path, model).album.has_people
    later = index(party, tmp_path, model, people=True)
    found = later.album.face_space().faces(later.album)
    assert later.report.faces == len(wanted) == 14
    assert np.array_equal(found.boxes, wanted.boxes)
    assert np.array_equal(found.vectors[:], wanted.vectors[:])


def test_an_album_that_has_people_keeps_them_up_to_date_and_without_them_shows_none(
    people_album, party, tmp_path, model
):
    draw(party / "new.png", "Anna", seed=50)
    again = index(party, tmp_path, model)
    assert again.report.faces == 1
    assert "new" in names(again.album.search(party / "0.png", k=7, space="face"))
    draw(party / "newer.png", "Anna", seed=51)
    album = index(party, tmp_path, model, people=False)
    assert album.report.faces == 0
    for hidden in (album.album, Album.open(tmp_path / "album", people=False), album.album.reopened()):
        assert not hidden.has_people
        with pytest.raises(ValueError, match="This album knows no people"):
            hidden.search(party / "0.png", space="face")
    opened = Album.open(tmp_path / "album")
    assert opened.find_people(progress=False) == 1
    draw(party / "newest.png", "Bob", seed=52)
    assert opened.update(progress=False).faces == 1
    assert opened.find_people(progress=False) == 0


def test_faces_of_another_network_are_refused(people_album, party, tmp_path, model):
    with pytest.raises(ValueError, match=r"found with another network .*--forget"):
        index(party, tmp_path, model, face_model=tmp_path / "mine.onnx")
    assert people_album.face_space().store.count() == 14


# -- going away


@pytest.mark.guarantee(26)
def test_a_photo_that_goes_takes_its_faces_with_it_to_the_last_byte(people_album, party, tmp_path, model):
    faces = people_album.face_space().faces(people_album)
    photo = people_album.photos.id_of("5.png")
    gone = [faces.vectors[row].tobytes() for row in faces.of_photo(photo)]
    kept = faces.vectors[faces.of_photo(people_album.photos.id_of("4.png"))[0]].tobytes()
    assert all(one in bytes_below(tmp_path / "album") for one in gone)
    people_album.remove([photo])
    content = bytes_below(tmp_path / "album")
    assert not any(one in content for one in gone)
    assert kept in content
    assert "5" not in names(people_album.search(party / "4.png", space="face", everything=True))


@pytest.mark.guarantee(26)
@pytest.mark.parametrize("people", [True, False])
def test_a_photo_that_changes_takes_its_faces_with_it(people_album, party, tmp_path, model, people):
    faces = people_album.face_space().faces(people_album)
    gone = faces.vectors[faces.of_photo(people_album.photos.id_of("4.png"))[0]].tobytes()
    draw(party / "4.png", "Dana", seed=77)
    album = index(party, tmp_path, model, people=people).album
    assert gone not in bytes_below(tmp_path / "album")
    album = Album.open(tmp_path / "album")
    found = album.search(party / "3.png", space="face", min_score=0.8)
    assert names(found) == {"2", "3", "5"}
    dana = album.search(draw(tmp_path / "query.png", "Dana"), space="face", min_score=0.8)
    assert names(dana) == ({"4", "8", "9"} if people else {"8", "9"})


@pytest.mark.guarantee(26)
def test_forgetting_leaves_nothing_of_people_and_all_of_the_rest(people_album, party, tmp_path):
    people_album.people.name(group_of(people_album, 0).number, "Anna Of The Party")
    people_album.search(party / "0.png", space="face")  # makes the graph
    faces = people_album.face_space().faces(people_album)
    secrets = [faces.vectors[row].tobytes() for row in range(len(faces))] + [b"Anna Of The Party"]
    before = bytes_below(tmp_path)
    assert all(secret in before for secret in secrets)
    gone = people_album.forget_people()
    assert (gone.faces, gone.names, gone.marks) == (14, 1, 6)
    after = bytes_below(tmp_path)
    assert not any(secret in after for secret in secrets)
    assert not (tmp_path / "album" / "people").exists()
    assert not people_album.has_people
    with pytest.raises(ValueError, match="This album knows no people"):
        people_album.search(party / "0.png", space="face")
    assert len(people_album.search(party / "0.png", k=10)) == 10
    assert people_album.forget_people().files == ()


def test_faces_of_an_earlier_album_in_the_folder_are_not_those_of_a_new_one(people_album, party, tmp_path, model):
    for file in (tmp_path / "album").iterdir():
        if file.is_file():
            file.unlink()
    index(party, tmp_path, model, people=False)
    assert Album.open(tmp_path / "album").search(party / "0.png", space="face") == []
    again = index(party, tmp_path, model, people=True).album
    assert len(again.search(party / "0.png", k=6, space="face")) == 6


def test_people_that_were_forgotten_and_found_again_elsewhere_are_seen(people_album, party, tmp_path, model):
    assert len(people_album.people.groups()) == 4
    Album.open(tmp_path / "album").forget_people()
    assert not people_album.has_people
    draw(party / "new.png", "Gus", seed=5)
    index(party, tmp_path, model, people=True)
    assert len(people_album.reopened().people.groups()) == 5


def test_a_changed_byte_is_refused(people_album, tmp_path):
    file, faces = tmp_path / "album" / "people" / "people.db", people_album.face_space().faces(people_album)
    content, vector = file.read_bytes(), faces.vectors[3].tobytes()
    place = content.index(vector)
    file.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
    album = Album.open(tmp_path / "album")
    for ask in (album.verify, lambda: album.face_space().faces(album)):
        with pytest.raises(ValueError, match=r"people\.db is damaged .*--forget"):
            ask()
    assert album.forget_people().left == ()


# -- groups


def test_faces_are_grouped_by_person(people_album):
    groups = people_album.people.groups()
    assert [len(group.photos) for group in groups] == [6, 4, 2, 2]
    assert all(group.name is None and group.cover in group.faces for group in groups)
    assert set(groups[0].photos) == {people_album.photos.id_of(f"{name}.png") for name in "012369"}


def test_two_faces_in_one_photo_are_two_people_unless_a_user_says_so(tmp_path, model):
    folder = tmp_path / "twins"
    for number in range(3):
        draw(folder / f"{number}.png", "Anna", "Anna*", seed=number)
    people = index(folder, tmp_path, model, people=True).album.people
    assert [len(group.photos) for group in people.groups()] == [3, 3]
    people.merge([group.number for group in people.groups()])  # mirrors
    assert [(len(group.faces), len(group.photos)) for group in people.groups()] == [(6, 3)]


def test_a_person_is_named_found_by_name_and_grows_by_what_is_certain(people_album, party, tmp_path, model):
    people_album.people.name(group_of(people_album, 0).number, " Anna ")
    assert people_album.people.groups()[0].name == "Anna"
    draw(party / "new.png", "Anna", seed=60)
    album = index(party, tmp_path, model).album
    anna = album.people.named("Anna")
    assert len(anna.photos) == 7
    hits = album.people.search("Anna", k=7)
    assert names(hits) == {"0", "1", "2", "3", "6", "9", "new"}
    assert all(hit.box is not None for hit in hits)
    with pytest.raises(ValueError, match="Nobody in this album is named 'Zoe': it knows Anna"):
        album.people.search("Zoe")


def test_one_who_is_named_stays_out_of_the_photos_of_another(people_album):
    people = people_album.people
    people.name(group_of(people_album, 0).number, "Anna")
    people.name(group_of(people_album, 4).number, "Bob")
    assert names(people.search("Anna", k=None)).isdisjoint({"4"})
    assert names(people.search("Anna", k=None)) >= {"0", "1", "2", "3", "6", "9"}


def test_what_is_split_stays_split_and_what_is_merged_stays_merged(people_album, party, tmp_path, model):
    people, anna = people_album.people, group_of(people_album, 0)
    people.split(anna.faces[:2])
    assert [len(group.photos) for group in people.groups()] == [4, 4, 2, 2, 2]
    people.merge([group_of(people_album, 4).number, group_of(people_album, 8).number])  # Bob is Chris
    sizes = [len(group.photos) for group in people.groups()]
    assert sizes == [5, 4, 2, 2]
    for file in (tmp_path / "album").iterdir():  # the album is made again; what users said stays
        if file.is_file():
            file.unlink()
    draw(party / "00.png", "Dana", seed=90)  # and photos get other ids
    again = index(party, tmp_path, model, people=True).album
    assert [len(group.photos) for group in again.people.groups()] == [5, 4, 3, 2]


def test_faces_that_are_none_and_strangers_are_not_seen_again(people_album, party, tmp_path, model):
    people = people_album.people
    bob = group_of(people_album, 4)
    people.no_face(bob.faces)
    assert [len(group.photos) for group in people.groups()] == [6, 2, 2]
    assert names(people_album.search(party / "4.png", space="face", everything=True)).isdisjoint({"4"})
    with pytest.raises(ValueError, match="was marked as none"):
        people.group(bob.number)
    people.stranger(group_of(people_album, 0).number)
    assert [len(group.photos) for group in people.groups()] == [2, 2]
    draw(party / "new.png", "Anna", seed=61)
    people = index(party, tmp_path, model).album.people
    assert [len(group.photos) for group in people.groups()] == [2, 2]
    assert [len(group.photos) for group in people.groups(strangers=True)] == [7, 2, 2]


def test_a_face_that_is_not_somebody_never_joins_them_again(people_album):
    people = people_album.people
    anna = group_of(people_album, 0)
    people.name(anna.number, "Anna")
    assert people.mark(anna.number, wrong=[anna.cover]) in anna.faces[1:]
    assert anna.cover not in people.named("Anna").faces
    assert len(people.named("Anna").faces) == 5
    assert people.group(anna.cover).faces == (anna.cover,)


def test_a_person_takes_in_nobody_who_is_as_near_to_another(tmp_path, model, monkeypatch):
    folder = tmp_path / "near"
    monkeypatch.setitem(COLOURS, "Dana", (200, 125, 125))
    monkeypatch.setitem(COLOURS, "Emil", (125, 200, 125))
    monkeypatch.setitem(COLOURS, "Fay", (190, 190, 125))  # between both
    for number, name in enumerate(("Dana", "Dana", "Emil", "Emil")):
        draw(folder / f"{number}.png", name, seed=number, noise=0)
    album = index(folder, tmp_path, model, people=True).album
    album.people.name(group_of(album, 0).number, "Dana")
    album.people.name(group_of(album, 2).number, "Emil")
    draw(folder / "9.png", "Fay", seed=9, noise=0)
    people = index(folder, tmp_path, model).album.people
    assert sorted(len(group.photos) for group in people.groups()) == [1, 2, 2]
    (question,) = people.questions()
    assert question.name in ("Dana", "Emil")
    assert question.score > 0.5


def test_what_is_said_of_a_face_replaces_what_was_said_before(people_album):
    people = people_album.people
    for name in ("Anna", "Bob", "Anna"):
        people.name(group_of(people_album, 0).number, name)
    people.no_face([group_of(people_album, 0).cover])
    assert people_album.forget_people().marks == 6


def test_a_photo_that_is_decoded_smaller_has_boxes_in_its_own_pixels(party, tmp_path, model):
    large = Image.open(draw(tmp_path / "draft.png", "Gus", size=(1000, 600))).resize((2000, 1200), Image.Resampling.BOX)
    large.save(party / "large.jpg", quality=95)
    album = index(party, tmp_path, model, people=True).album
    (hit,) = album.search(tmp_path / "draft.png", k=1, space="face")
    assert hit.path == "large.jpg"
    assert hit.box == pytest.approx((16, 16, 48, 48), abs=3)


def test_one_group_alone_is_not_merged(people_album):
    people, group = people_album.people, group_of(people_album, 0)
    before = people.version
    with pytest.raises(ValueError, match="at least two groups"):
        people.merge([group.number, group.number])
    assert people.version == before


def test_two_names_are_not_merged_by_mistake(people_album):
    people = people_album.people
    people.name(group_of(people_album, 0).number, "Anna")
    people.name(group_of(people_album, 4).number, "Bob")
    with pytest.raises(ValueError, match="have the names Anna and Bob: give both the same name"):
        people.merge([group_of(people_album, 0).number, group_of(people_album, 4).number])
    people.name(group_of(people_album, 4).number, "Anna")
    assert len(people.named("Anna").photos) == 8
    for name in ("", "a" * 201, "a\x00b"):
        with pytest.raises(ValueError, match="A name has 1 to 200 letters"):
            people.name(group_of(people_album, 0).number, name)


@pytest.mark.guarantee(26)
def test_what_is_deleted_is_overwritten(people_album, tmp_path):
    with FaceStore(tmp_path / "album").database.reading() as connection:
        assert connection.execute("PRAGMA secure_delete").fetchone() == (1,)
