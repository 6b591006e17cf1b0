"""`smoothap load`."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter


def load(
    album: Path,
    address: str,
    /,
    *,
    index: str = "auto",
    workers: int = 4,
    pictures: bool | None = None,
    least_recall: float = 0.8,
    replace: Annotated[bool, Parameter(negative=())] = False,
    patience: float = 60.0,
) -> None:
    """Bring an album into Milvus, or what is there up to date: only what was added, changed and removed is sent.

    Searches go on in the old version until the new one is whole and was checked; then they take it up by themselves.
    Stopped at any moment, the next run goes on. Set MILVUS_TOKEN to the token of the server, if it asks for one, and
    MILVUS_CERTIFICATE to a file with its certificate, if the system does not know who signed it.

    Parameters
    ----------
    album
        The folder that smoothap index made.
    address
        milvus://HOST:PORT/NAME, or milvus+tls://HOST:PORT/NAME for an encrypted connection.
    index
        hnsw, a graph; ivf_pq, codes of 64 bytes for 512 numbers; auto takes the codes above two million photos.
    workers
        How many messages are on their way at once.
    pictures
        Whether thumbnails go along; by default in albums of up to 100,000 photos.
    least_recall
        The share of the nearest photos of a sample that the index has to find, or nothing is switched.
    replace
        Put this album in the place of another one of the same name.
    patience
        How many seconds to wait for a server that does not answer.
    """
    from smoothap.album.milvus_loading import load_album

    done = load_album(
        album, address, index=index, workers=workers, pictures=pictures, least_recall=least_recall,
        replace_all=replace, patience=patience,
    )  # fmt: skip
    if done.recall is None:
        print(f"{address} is up to date: {done.photos:,} photos")
        return
    print(f"Sent {done.sent:,}, removed {done.removed:,}: {done.photos:,} photos at {address}")
    print(f"{done.index} finds {done.recall:.1%} of the ten nearest photos of a sample.")
    print(f"Search  smoothap search {address} PHOTO.jpg")
