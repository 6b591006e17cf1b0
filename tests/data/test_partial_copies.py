"""Partial copies of the published sets: refused, unless they are taken on purpose for a dry run."""

import pytest
from tiny_sets import (
    write_ijbc,
    write_ijbc_aligned,
    write_inaturalist,
    write_sop,
    write_vehicle_id,
    write_vggface2,
)

from smoothap.data.datasets.counts import partial_copies_taken
from smoothap.data.datasets.published import in_shop
from smoothap.data.names import open_data

WRITERS = {
    "sop": write_sop,
    "vehicle-id": write_vehicle_id,
    "inaturalist": write_inaturalist,
    "vggface2": write_vggface2,
    "vggface2-aligned": write_vggface2,
}


@pytest.mark.parametrize("name", WRITERS)
def test_what_is_there_of_a_set_is_opened_and_what_is_not_is_said(name, tmp_path):
    root = WRITERS[name](tmp_path / "set")
    gone = sorted(path for path in root.rglob("*") if path.suffix.lower() == ".jpg")[::3]
    for path in gone:
        path.unlink()
    with pytest.raises(ValueError, match=r"listed files are missing|is partial"):
        open_data(f"{name}:{root}")
    with partial_copies_taken() as lacking:
        benchmark = open_data(f"{name}:{root}")
    for images in benchmark.sets:
        assert len(images.names) == len(images) == len(images.labels)
        assert images.read(len(images) - 1).mode == "RGB"  # each row still reads its own file
        assert images.groups is None or len(images.groups) == len(images)
    assert sum("listed files are missing" in line for line in lacking.sentences) == len(benchmark.sets)
    assert sum("is partial: found" in line for line in lacking.sentences) == len(benchmark.sets)
    assert lacking.whole[benchmark.train.name] > 50_000
    with pytest.raises(ValueError, match=r"listed files are missing|is partial"):
        open_data(f"{name}:{root}")  # as before


@pytest.mark.parametrize(("name", "write"), [("ijbc", write_ijbc), ("ijbc-aligned", write_ijbc_aligned)])
def test_a_subject_whose_faces_are_missing_is_left_out(name, write, tmp_path):
    root = write(tmp_path / "set")
    whole = open_data(f"{name}:{root}").tests["test"]
    subject = whole.class_names[0]
    folder = root / ("loose_crop" if name == "ijbc-aligned" else "images")
    for row in (whole.labels == 0).nonzero()[0]:
        (folder / str(whole.names[row])).unlink()
    with partial_copies_taken() as lacking:
        test = open_data(f"{name}:{root}").tests["test"]
    assert subject not in test.class_names
    assert len(test) == len(test.instances) == (whole.labels == 1).sum()
    assert "listed files are missing" in lacking.sentences[0]


def test_queries_stay_queries_where_files_are_missing(tmp_path, write_images, paper_has):
    paper_has({"in-shop train": (3, 1), "in-shop test": (9, 3)})
    rows = [(f"img/MEN/Denim/id_{article}/{number}.jpg", f"id_{article}", "query" if number == 1 else "gallery")
            for article in range(3) for number in range(3)]  # fmt: skip
    rows += [(f"img/MEN/Denim/id_9/{number}.jpg", "id_9", "train") for number in range(3)]
    write_images(tmp_path, [path for path, _, _ in rows[1:]])
    lines = ["12", "image_name item_id evaluation_status", *(" ".join(row) for row in rows)]
    (tmp_path / "list_eval_partition.txt").write_text("\n".join(lines) + "\n")
    with partial_copies_taken():
        test = in_shop(tmp_path).tests["test"]
    assert len(test) == 8
    assert [str(name)[-5] for name in test.names[test.is_query]] == ["1", "1", "1"]
