"""Which network made the vectors: an album answers no query of another."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from smoothap.models import Embedder

_NO_MODEL = "This album holds vectors made elsewhere: give a vector or the id of a photo as a query."


@dataclass(frozen=True)
class ModelIdentity:
    """What makes two networks the same: the weights to the byte, the architecture, the transform, the dimension."""

    sha256: str
    architecture: str
    dimension: int
    transform: dict[str, Any]

    @classmethod
    def of(cls, values: dict[str, Any]) -> ModelIdentity:
        """The identity that an album's settings describe."""
        kinds = {"sha256": str, "architecture": str, "dimension": int, "transform": dict}
        if values.keys() != kinds.keys() or not all(isinstance(values[name], kinds[name]) for name in kinds):
            raise ValueError("album.db does not say which model made the album: delete it and index the photos again.")
        return cls(**values)

    def __str__(self) -> str:
        return f"{self.architecture}, {self.dimension} numbers, {self.transform.get('size')} px, {self.sha256[:12]}"


def identity_of(model: Embedder) -> ModelIdentity:
    """The identity of a model; its checksum is the one in the `model.json` of the folder it is saved in."""
    from safetensors.torch import save

    state = {name: value.detach().cpu().contiguous() for name, value in model.state_dict().items()}
    transform = json.loads(json.dumps(model.transform.to_dict()))  # as album.db gives it back
    return ModelIdentity(hashlib.sha256(save(state)).hexdigest(), model.architecture, model.dimension, transform)


def load_model(source: Embedder | Path | str) -> Embedder:
    """The model of a folder, or a network with its published weights as NAME or NAME@SIZE."""
    from smoothap.models import open_model

    return open_model(source).eval() if isinstance(source, (Path, str)) else source


@dataclass(eq=False)
class AlbumModel:
    """The network that made an album's vectors: loaded when it is first needed, and no other is taken for it."""

    identity: ModelIdentity | None = None
    source: str = ""  # where it lies: name:NAME of published weights, or folder:PATH relative to the album
    album: Path | None = None  # the folder
    device: str | None = None  # None: the accelerator where there is one
    _embedder: Embedder | None = None

    @classmethod
    def of(
        cls, model: Embedder | ModelIdentity | Path | str | None, album: Path | None, device: str | None = None
    ) -> AlbumModel:
        """The network for a new album in a folder or, with None, in memory; perhaps no more than who it is is known."""
        if model is None or isinstance(model, ModelIdentity):
            return cls(model, album=album, device=device)
        embedder = load_model(model)
        known = cls(identity_of(embedder), "", album, device)
        known._keep(embedder, model)
        return known

    def loaded(self) -> Embedder:
        """The network, from where the album says it was found."""
        if self._embedder is None:
            if self.identity is None or self.album is None:
                raise ValueError(_NO_MODEL)
            self._embedder = self._placed(self._checked(self._found_again(), str(self.album)))
        return self._embedder

    def use(self, model: Embedder | Path | str) -> None:
        """Take this network, which must be the one that made the album, and remember where it lies."""
        if self.identity is None:
            raise ValueError(_NO_MODEL)
        self._keep(self._checked(load_model(model), "This album"), model)

    def _keep(self, embedder: Embedder, model: Embedder | Path | str) -> None:
        self._embedder = embedder if embedder is model else self._placed(embedder)
        if isinstance(model, (str, Path)):
            if not Path(model).is_dir():
                self.source = f"name:{model}"
            elif self.album is not None:
                self.source = f"folder:{os.path.relpath(Path(model).resolve(), self.album.resolve())}"

    def _checked(self, model: Embedder, where: str) -> Embedder:
        if (given := identity_of(model)) != self.identity:
            raise ValueError(
                f"{where} was made by another model ({self.identity}) than the one given ({given}), and their vectors "
                "cannot be compared: give the album's own model, or index the photos again with this one."
            )
        return model

    def _placed(self, model: Embedder) -> Embedder:
        from smoothap._core.devices import chosen_device

        return model.to(chosen_device(self.device))

    def place(self) -> Path | str:
        """Where the network is: a folder, or the name of published weights."""
        kind, _, name = self.source.partition(":")
        if kind not in ("name", "folder") or self.album is None:
            raise ValueError(f"{self.album} does not say where its model is: open it with the model it was made with.")
        return name if kind == "name" else self.album / name

    def _found_again(self) -> Embedder:
        place = self.place()
        try:
            return load_model(place)
        except ConnectionError as error:
            option = str(place).replace("@", " --size ")
            raise ValueError(
                f"The model of this album is {place} with its published weights, which are not on this machine and "
                "cannot be fetched: run this once with a network, or fetch the weights elsewhere and make the album "
                f"again (smoothap index PHOTOS --model {option} --weights FILE --out ALBUM)."
            ) from error
        except ValueError as error:
            raise ValueError(
                f"The model of this album ({self.identity}) is not at {place} any more: open the album with "
                "model=FOLDER (--model FOLDER on the command line)."
            ) from error
