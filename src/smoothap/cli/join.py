"""`smoothap join`."""

from pathlib import Path

from smoothap.cli._options import check_folder


def join(*albums: Path, out: Path) -> None:
    """Put albums of one model together as one new album, without copying their vectors.

    The albums stay as they are. Where the disk allows it, both share the files of vectors and thumbnails, which are
    never changed; deleting one album leaves the other whole. What albums learnt, and their collections, are not taken
    over.

    Parameters
    ----------
    albums
        The folders of the albums, at least two. Photos of the first keep their ids.
    out
        The folder of the new album.
    """
    check_folder(out)
    from smoothap.album.joining import join_albums

    joined = join_albums(albums, out)
    twice = f"; {joined.twice:,} were in two albums and are in it once" if joined.twice else ""
    print(f"{joined.photos:,} photos of {len(albums)} albums are in {out}{twice}")
