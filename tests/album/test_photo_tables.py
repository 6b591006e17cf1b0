"""Albums of the photos that a table lists: its columns are kept, filter searches, and follow the table."""

import csv
import shutil

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from photo_makers import photo_folder, tiny_model

from smoothap.album import Album, Filter
from smoothap.album.ingest import index_photos
from smoothap.cli import app
from smoothap.data.names import open_data

ROWS = [
    {
        "image_path": f"photos/class{number % 3}/{number:03d}.png",
        "product_id": f"p{number % 3}",
        "brand": brand,
        "size": "",
    }
    for number, brand in enumerate(["acme", "zeta", "acme", "", "zeta", "acme"])
]
NAMES = "path=image_path,label=product_id"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("made")
    tiny_model(folder / "model")
    photo_folder(folder / "photos", 9)
    return folder


@pytest.fixture
def folder(made, tmp_path):
    return shutil.copytree(made, tmp_path / "copy")


def write(file, rows):
    if file.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(rows), file)
    else:
        with file.open("w", newline="") as stream:
            writer = csv.DictWriter(stream, rows[0])
            writer.writeheader()
            writer.writerows(rows)
    return file


def indexed(folder, rows, name="products.csv", **options):
    table = write(folder / name, rows)
    return index_photos(table, folder / "album", model=str(folder / "model"), columns=NAMES, progress=False, **options)


@pytest.mark.parametrize("name", ["products.csv", "products.parquet"])
def test_the_album_has_the_photos_labels_and_columns_of_the_table_and_no_other_photos(folder, name):
    album = Album.open(indexed(folder, ROWS, name).album.folder)
    found = {photo.path: (photo.label, photo.columns) for photo in album.photos}
    wanted = {row["image_path"]: (row["product_id"], {"brand": row["brand"]} if row["brand"] else {}) for row in ROWS}
    assert found == wanted
    assert album.photos.column_names() == ["brand"]
    assert album.photos.values_of("brand").tolist() == [found[photo.path][1].get("brand", "") for photo in album.photos]
    album.verify()


def test_searches_look_only_at_what_has_the_value(folder, capsys):
    album = indexed(folder, ROWS).album
    hits = album.search(0, k=10, where=Filter(columns=(("brand", "acme"),)))
    wanted = {photo.id for photo in album.photos if photo.columns.get("brand") == "acme"} - {0}
    assert {hit.id for hit in hits} == wanted
    with pytest.raises(ValueError, match="no column 'colour': it has brand"):
        album.search(0, where=Filter(columns=(("colour", "red"),)))
    capsys.readouterr()
    app(["search", str(folder / "album"), "--id", "0", "--where", "brand=zeta"], result_action="return_value")
    printed = capsys.readouterr().out
    assert "2 of 6 photos pass the filter" in printed
    with pytest.raises(ValueError, match="--where takes COLUMN=VALUE, such as brand=acme"):
        app(["search", str(folder / "album"), "--id", "0", "--where", "zeta"], result_action="return_value")


def test_the_album_follows_the_table(folder):
    before = indexed(folder, ROWS)
    ids = {photo.path: photo.id for photo in before.album.photos}
    rows = [dict(row) for row in ROWS[1:]]
    rows[0]["brand"], rows[1]["product_id"] = "other", "p9"
    after = indexed(folder, rows)
    assert after.report.removed == [ROWS[0]["image_path"]]
    assert sorted(after.report.relabelled) == sorted(row["image_path"] for row in rows[:2])
    assert after.report.added == after.report.changed == []
    photo = after.album.photo(ids[rows[0]["image_path"]])
    assert (photo.label, photo.columns) == ("p1", {"brand": "other"})
    assert after.album.photo(ids[rows[1]["image_path"]]).label == "p9"


def test_photos_elsewhere_have_the_folder_above_them_all_as_their_root(folder, tmp_path):
    (tmp_path / "tables").mkdir()
    rows = [{**row, "image_path": str(folder / row["image_path"])} for row in ROWS]
    table = write(tmp_path / "tables" / "products.csv", rows)
    album = index_photos(table, folder / "album", model=str(folder / "model"), columns=NAMES, progress=False).album
    assert album.root == folder / "photos"
    assert album.photos[0].path == "class0/000.png"


def test_what_is_wrong_with_a_table_is_said(folder):
    missing = [*ROWS, {**ROWS[0], "image_path": "photos/gone.png"}]
    assert indexed(folder, missing).unknown_paths == ["photos/gone.png"]
    table = write(folder / "products.csv", ROWS)
    for options, words in (
        ({}, "lacks the column 'path'.* such as --columns path=NAME"),
        ({"columns": "path=picture"}, "lacks the column 'picture'; it has image_path"),
        ({"columns": "path"}, "--columns takes OURS=THEIRS"),
        ({"columns": NAMES, "labels": "folders"}, "leave --labels out"),
    ):
        with pytest.raises(ValueError, match=words):
            index_photos(table, folder / "other", model=str(folder / "model"), **options)
    with pytest.raises(ValueError, match="names the columns of a table"):
        index_photos(folder / "photos", folder / "other", model=str(folder / "model"), columns=NAMES)
    with pytest.raises(ValueError, match="twice, with other values"):
        indexed(folder, [*ROWS, {**ROWS[0], "brand": "zeta"}])
    with pytest.raises(ValueError, match="None of the 6 paths"):
        indexed(folder, [{**row, "image_path": f"no/{row['image_path']}"} for row in ROWS])
    assert not (folder / "other").exists()


def test_columns_have_their_names_wherever_a_table_is_read(folder):
    table = write(folder / "products.csv", ROWS)
    benchmark = open_data(f"csv:{table}", columns=NAMES, test_fraction=0.34)
    names = {str(name) for images in (benchmark.train, *benchmark.tests.values()) for name in images.class_names}
    assert names == {"p0", "p1", "p2"}
    with pytest.raises(ValueError, match="--columns is for csv and parquet"):
        open_data(f"folder:{folder / 'photos'}", columns=NAMES)
    labelled = index_photos(
        folder / "photos", folder / "album", model=str(folder / "model"), labels=str(table), columns=NAMES,
        progress=False,
    ).album  # fmt: skip
    assert labelled.photos[0].label == "p0"
