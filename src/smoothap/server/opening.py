"""Albums by the names that a server gives them."""

from collections.abc import Sequence
from pathlib import Path

from smoothap.album import Album


def open_albums(paths: Sequence[Path], models: Sequence[Path] = (), engine: str = "auto") -> dict[str, Album]:
    """The albums by name; two are compared photo by photo, so they have to have photos in common.

    An album goes by the name of its folder, and a second one of that name by that of the folder above it too.
    `models` are folders of their models, in order, where these are no longer where they were; `engine` is as in
    `Album.open`.
    """
    albums: dict[str, Album] = {}
    for place, path in enumerate(paths):
        model = models[place] if place < len(models) else None
        whole = path.resolve()
        name = whole.name or "album"
        opened = Album.open(path, engine=engine, model=model)
        albums[name if name not in albums else f"{whole.parent.name}-{name}"] = opened
    if len(albums) == 2:
        first, second = (set(opened.photos.paths()) for opened in albums.values())
        if first and second and first.isdisjoint(second):
            raise ValueError(
                "The two albums have no photo in common, by the paths in their photo folders: compare albums of the "
                "same photos, or serve one at a time."
            )
    return albums
