import numpy as np
import pytest

from smoothap.data.datasets import faces
from smoothap.data.datasets.faces import ijbc

HEADER = "SUBJECT_ID,FILENAME,SIGHTING_ID,FACE_X,FACE_Y,FACE_WIDTH,FACE_HEIGHT,FACIAL_HAIR"
# Subject 1: four photos and a video of three frames, five instances. Subject 2: a video, and a photo with 1.
ROWS = [
    *[("1", f"img/{number}.jpg", str(number)) for number in range(1, 5)],
    *[("1", f"frames/10_{frame}.png", "10") for frame in range(3)],
    *[("2", f"frames/11_{frame}.png", "11") for frame in range(9)],
    ("2", "img/1.jpg", "1"),
    ("NaN", "img/5.jpg", "5"),
]
IMAGES = sorted({f"images/{name}" for _, name, _ in ROWS})


def csv(rows, header=HEADER):
    return header + "\n" + "".join(f"{s},{name},{sighting},10,10,20,20,0\n" for s, name, sighting in rows)


@pytest.fixture
def nist(tmp_path, write_images):
    write_images(tmp_path, IMAGES, size=(60, 60))
    (tmp_path / "protocols").mkdir()
    (tmp_path / "protocols" / "ijbc_metadata.csv").write_text(csv(ROWS))
    return tmp_path


def test_a_video_is_one_instance_and_identities_below_five_are_left_out(nist):
    benchmark = ijbc(nist)
    test = benchmark.tests["test"]
    assert benchmark.train is None
    assert list(test.class_names) == ["1"]
    assert len(test) == 7
    assert len(np.unique(test.instances)) == 5
    frames = np.char.startswith(test.names.astype(str), "frames/")
    assert len(np.unique(test.instances[frames])) == 1


def test_two_people_in_one_photo_are_two_instances(nist):
    rows = [(subject, f"img/{number}.jpg", str(number)) for subject in "12" for number in range(1, 6)]
    (nist / "protocols" / "ijbc_metadata.csv").write_text(csv(rows))
    assert len(np.unique(ijbc(nist).tests["test"].instances)) == 10


@pytest.mark.parametrize("folder", ["archive", "test1"])
def test_protocols_that_moved_into_a_folder_are_found(nist, folder):
    (nist / "protocols" / folder).mkdir()
    (nist / "protocols" / "ijbc_metadata.csv").rename(nist / "protocols" / folder / "ijbc_metadata.csv")
    assert len(ijbc(nist).tests["test"]) == 7


def test_without_metadata_the_galleries_and_probes_are_joined_and_no_face_counts_twice(nist):
    (nist / "protocols" / "ijbc_metadata.csv").unlink()
    for name, rows in (("gallery_G1", ROWS[:3]), ("gallery_G2", ROWS[7:]), ("probe_mixed", ROWS[:7])):
        (nist / "protocols" / f"ijbc_1N_{name}.csv").write_text(csv(rows))
    assert len(ijbc(nist).tests["test"]) == 7


def test_subjects_that_a_spreadsheet_wrote_as_fractions_are_the_same_subjects(nist):
    rows = [(f"{subject}.0" if subject != "NaN" else "", name, sighting) for subject, name, sighting in ROWS]
    (nist / "protocols" / "ijbc_metadata.csv").write_text(csv(rows))
    assert list(ijbc(nist).tests["test"].class_names) == ["1"]


def test_the_paper_s_counts_are_compared_before_identities_are_left_out(nist, monkeypatch):
    compared = []
    monkeypatch.setattr(faces, "compare_counts", lambda images, **_: compared.append(images.classes) or [])
    kept = ijbc(nist).tests["test"]
    assert compared[0] > kept.classes == 1


def test_aligned_crops_of_nist_s_copy_are_refused_with_the_reason(nist):
    with pytest.raises(ValueError, match="has no landmarks"):
        ijbc(nist, aligned=True)


@pytest.fixture
def insightface(tmp_path, write_images):
    """Templates 1 to 3 show subject 1 (media 1-4 are photos, 10 a video), 4 shows subject 2, and 9 nobody known."""
    faces = [(1, 1), (1, 2), (2, 3), (2, 4), (3, 10), (3, 10), (3, 10), (1, 1), (4, 11), (9, 12)]
    write_images(tmp_path, [f"loose_crop/{number}.jpg" for number in range(1, 11)], size=(60, 60))
    meta = tmp_path / "meta"
    meta.mkdir()
    (meta / "ijbc_face_tid_mid.txt").write_text(
        "".join(f"{row + 1}.jpg {template} {media}\n" for row, (template, media) in enumerate(faces))
    )
    (meta / "ijbc_name_5pts_score.txt").write_text(
        "".join(f"{row}.jpg 20 20 40 20 30 30 22 40 38 40 0.99\n" for row in range(1, 11))
    )
    header = "TEMPLATE_ID,SUBJECT_ID,FILENAME,SIGHTING_ID\n"
    (meta / "ijbc_1N_gallery_G1.csv").write_text(header + "1,1,img/1.jpg,1\n2,1,img/3.jpg,3\n")
    (meta / "ijbc_1N_gallery_G2.csv").write_text(header + "4,2,img/9.jpg,11\n")
    (meta / "ijbc_1N_probe_mixed.csv").write_text(header + "3,1,frames/1.png,10\n9,NaN,img/12.jpg,12\n")
    return tmp_path


def test_insightface_s_copy_gives_instances_by_media(insightface):
    test = ijbc(insightface).tests["loose crops"]
    assert list(test.class_names) == ["1"]
    assert (len(test), len(np.unique(test.instances))) == (8, 5)
    assert test.instances[0] == test.instances[7]
    assert test.read(0).size == (60, 60)


def test_insightface_s_copy_gives_aligned_crops(insightface):
    benchmark = ijbc(insightface, aligned=True)
    assert benchmark.name == "ijbc-aligned"
    assert benchmark.tests["test"].read(3).size == (112, 112)
