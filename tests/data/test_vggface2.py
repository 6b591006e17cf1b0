import pytest

from smoothap.data.datasets.faces import names_of_people, vggface2

TRAIN = ["n000002/0001_01.jpg", "n000002/0002_01.jpg", "n000003/0001_02.jpg"]
TEST = ["n000001/0001_01.jpg", "n000001/0003_01.jpg"]
pytestmark = pytest.mark.usefixtures("small")


@pytest.fixture
def small(paper_has):
    paper_has({"vggface2 train": (3, 2), "vggface2 test": (2, 1)})


@pytest.fixture
def root(tmp_path, write_images):
    tables = tmp_path / "bb_landmark"
    tables.mkdir()
    for part, paths in (("train", TRAIN), ("test", TEST)):
        write_images(tmp_path / part, paths, size=(100, 100))
        (tmp_path / f"{part}_list.txt").write_text("".join(f"{path}\n" for path in paths))
        stems = [path.removesuffix(".jpg") for path in reversed(paths)]  # in another order than the list
        boxes = "".join(f'"{stem}",20,30,{40 + 10 * row},60\n' for row, stem in enumerate(stems))
        (tables / f"loose_bb_{part}.csv").write_text("NAME_ID,X,Y,W,H\n" + boxes)
        points = "".join(f'"{stem}",30.5,40,60,40,45,55,35,70,58,70\n' for stem in stems)
        header = "NAME_ID,P1X,P1Y,P2X,P2Y,P3X,P3Y,P4X,P4Y,P5X,P5Y\n"
        (tables / f"loose_landmark_{part}.csv").write_text(header + points)
    (tmp_path / "identity_meta.csv").write_text(
        "Class_ID, Name, Sample_Num, Flag, Gender\n"
        'n000001, "14th_Dalai_Lama", 424, 0, m,\n'
        'n000002, "A_Fine_Aunt", 315, 1, f,\n'
        'n000003, "Robert_Downey,_Jr.", 315, 1, m,\n',
        encoding="utf-8",
    )
    return tmp_path


def test_faces_are_cropped_to_the_box_extended_by_1_3(root):
    benchmark = vggface2(root)
    assert [benchmark.train.read(row).size for row in range(3)] == [(78, 78), (65, 78), (52, 78)]
    assert benchmark.warnings == ()


def test_faces_are_aligned_by_their_landmarks(root):
    benchmark = vggface2(root, aligned=True)
    assert benchmark.name == "vggface2-aligned"
    assert benchmark.tests["test"].read(1).size == (112, 112)


def test_people_have_their_names_even_with_a_comma_in_them(root):
    benchmark = vggface2(root)
    assert list(benchmark.train.class_names) == ["n000002 A_Fine_Aunt", "n000003 Robert_Downey,_Jr."]
    assert names_of_people(root / "identity_meta.csv")["n000001"] == "14th_Dalai_Lama"


def test_a_face_without_a_box_is_an_error(root):
    (root / "bb_landmark" / "loose_bb_test.csv").write_text('NAME_ID,X,Y,W,H\n"n000001/0001_01",1,2,3,4\n')
    with pytest.raises(ValueError, match=r"loose_bb_test.csv, which gives the faces: 1 of 2"):
        vggface2(root)


@pytest.mark.parametrize("aligned", [False, True])
def test_crops_are_the_same_where_a_smaller_decoding_would_be_enough(root, aligned):
    """Boxes and landmarks count the pixels of the whole photo."""
    train = vggface2(root, aligned=aligned).train
    assert train.read(0, 8).tobytes() == train.read(0).tobytes()
