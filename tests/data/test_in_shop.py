import pytest

from smoothap.data.datasets.counts import Counts
from smoothap.data.datasets.in_shop import in_shop

ROWS = [
    ("img/WOMEN/Dresses/id_00000002/02_1_front.jpg", "id_00000002", "train"),
    ("img/WOMEN/Dresses/id_00000002/02_2_side.jpg", "id_00000002", "train"),
    ("img/MEN/Denim/id_00000080/01_1_front.jpg", "id_00000080", "query"),
    ("img/MEN/Denim/id_00000080/01_2_side.jpg", "id_00000080", "gallery"),
    ("img/WOMEN/Skirts/id_00000090/01_1_front.jpg", "id_00000090", "gallery"),
]
SMALL = {"train": Counts(2, 1), "test": Counts(3, 2)}


def write_list(path, rows):
    path.parent.mkdir(exist_ok=True)
    lines = [str(len(rows)), "image_name item_id evaluation_status", *(" ".join(row) for row in rows)]
    path.write_text("\n".join(lines) + "\n")


@pytest.fixture(params=["flat", "released"])
def root(tmp_path, write_images, request):
    released = request.param == "released"
    write_images(tmp_path / "Img" if released else tmp_path, [path for path, _, _ in ROWS])
    write_list(tmp_path / ("Eval/list_eval_partition.txt" if released else "list_eval_partition.txt"), ROWS)
    return tmp_path


def test_queries_look_for_their_article_in_the_gallery(root):
    benchmark = in_shop(root, published=SMALL)
    test = benchmark.tests["test"]
    assert len(benchmark.train) == 2
    assert test.is_query.tolist() == [True, False, False]
    assert test.is_gallery.tolist() == [False, True, True]
    assert list(test.class_names) == ["id_00000080", "id_00000090"]
    assert [test.group_names[group] for group in test.groups] == ["MEN/Denim", "WOMEN/Skirts"][:1] * 2 + [
        "WOMEN/Skirts"
    ]
    assert test.recall_at == (1, 10, 20, 30)
    assert test.read(0).size == (8, 6)
    assert benchmark.warnings == ()


def test_a_line_of_no_known_part_is_an_error(root):
    listing = next(root.rglob("list_eval_partition.txt"))
    write_list(listing, [*ROWS[:-1], (*ROWS[-1][:2], "test")])
    with pytest.raises(ValueError, match="1 lines that end in none of train, query, gallery"):
        in_shop(root, published=SMALL)


def test_a_partial_copy_says_what_was_expected(root):
    with pytest.raises(
        ValueError, match=r"in-shop train is partial: found .*, expected 25,882 images of 3,997 classes"
    ):
        in_shop(root)
