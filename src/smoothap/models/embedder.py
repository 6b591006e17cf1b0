"""The network of the paper: a pretrained backbone, one linear layer, vectors of length 1."""

import copy
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence, Sized
from contextlib import contextmanager, nullcontext
from itertools import chain
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn
from torch.nn.functional import normalize
from torch.utils.data import DataLoader, Dataset

from smoothap._core.memory import freed_memory_kept
from smoothap._core.progress import Progress
from smoothap.data.image_set import ImageSet
from smoothap.data.reading import as_rgb, read_image
from smoothap.data.transforms import Transform
from smoothap.models import cpu, efficientnet_lite
from smoothap.models.card import write_card
from smoothap.models.folder import hub_folder, read_model, write_model
from smoothap.models.weights import build_backbone, load_state, published_settings

_HIDDEN = "embedding.hidden.weight"
Tag = TypeVar("Tag")
Images: TypeAlias = "Sequence[Path | str | Image.Image] | ImageSet | Dataset[Any] | DataLoader[Any]"


class Embedder(nn.Module):
    """Images (n, 3, h, w) -> vectors (n, dimension) of length 1, by a backbone and one linear layer.

    Images are bytes (RGB, uint8), which `transform` normalises, or floats that are normalised already.
    `architecture` is any timm name, or "iresnet50"; `dimension=None` leaves the linear layer out and gives the
    backbone's own features, the untrained baseline. With `hidden`, a network with that many hidden units is
    added to the linear layer. `size` is the side of the images, by default that of the published weights. `pretrained`
    is True for those, False for random weights, or a .safetensors or .pth file.
    With `freeze_batch_norm` the running statistics stay as loaded while the affine weights train, as in the paper.

    >>> model = Embedder("resnet18", dimension=64, size=32, pretrained=False).eval()
    >>> model(torch.rand(2, 3, 32, 32)).shape
    torch.Size([2, 64])
    """

    def __init__(
        self,
        architecture: str = efficientnet_lite.ARCHITECTURE,
        dimension: int | None = 512,
        *,
        hidden: int = 0,
        size: int | None = None,
        pretrained: bool | Path | str = True,
        freeze_batch_norm: bool = True,
    ) -> None:
        super().__init__()
        self.architecture = architecture
        self.freeze_batch_norm = freeze_batch_norm
        self.backbone = build_backbone(architecture, size, pretrained)
        published = published_settings(self.backbone)
        self.transform = Transform(
            name=published.get("transform", "paper"),
            size=published["input_size"][-1] if size is None else size,
            mean=tuple(published["mean"]),
            std=tuple(published["std"]),
        )
        cpu.accelerate(self.backbone, self.transform.size)
        self.backbone_elsewhere: Mapping[str, Tensor] = {}  # the weights that `on_features` left out, for `save`
        self.renew_embedding(dimension, hidden)
        # The faster layout for convolutions, also on CPU; torch's declarations leave this argument out.
        self.to(memory_format=torch.channels_last)  # ty: ignore[no-matching-overload]
        self.train()

    def renew_embedding(self, dimension: int | None, hidden: int = 0) -> None:
        """Put a new embedding layer instead of the one that is there, or none without a dimension."""
        if dimension is not None and dimension < 1:
            raise ValueError(f"dimension must be at least 1, or None for the backbone's own features, got {dimension}")
        if hidden < 0:
            raise ValueError(f"hidden must be at least 1, or 0 for one linear layer, got {hidden}")
        features = self.feature_dimension
        self.embedding: nn.Linear | None = None
        if dimension is not None:
            self.embedding = EmbeddingLayer(features, dimension, hidden) if hidden else nn.Linear(features, dimension)
        self.dimension = features if dimension is None else dimension
        self.embedding_is_new = dimension is not None  # until weights are loaded
        self.head_init = "random" if dimension is not None else None  # what training made of the new layer

    @property
    def feature_dimension(self) -> int:
        """How many dimensions the features of the backbone have."""
        return int(getattr(self.backbone, "head_hidden_size", 0))

    @property
    def device(self) -> torch.device:
        """The device that the model is on."""
        return next(chain(self.parameters(), self.buffers())).device

    def on_features(self, *, saves_backbone: bool = True) -> "Embedder":
        """This model without its backbone, whose features (n, features, 1, 1) it takes instead of images.

        Both share the embedding layer, so that a training of the one is a training of the other. `save` writes the
        whole model; without `saves_backbone`, what is behind the backbone alone.
        """
        head = copy.copy(self)
        head._modules = {**self._modules, "backbone": GivenFeatures(self.feature_dimension).to(self.device)}
        if saves_backbone and not self.backbone_elsewhere:
            head.backbone_elsewhere = {f"backbone.{name}": value for name, value in self.backbone.state_dict().items()}
        return head

    def forward(self, images: Tensor) -> Tensor:
        return normalize(
            self._embedded(self.features(images)).float(), dim=1
        )  # in float32 under autocast: bf16 steps are 0.4 tau near cosine 1

    def features(self, images: Tensor) -> Tensor:
        """What the backbone gives for images (n, 3, h, w), before the linear layer: (n, features)."""
        if images.dtype == torch.uint8:
            images = self.transform.normalise(images)
        return self.backbone(images.contiguous(memory_format=torch.channels_last))

    def behind_pooling(self, pooled: Tensor) -> Tensor:
        """The vectors (n, dimension), of any length, of features (n, features) that were pooled from the last map."""
        rest = getattr(self.backbone, "forward_head", None)
        return self._embedded(pooled if rest is None else rest(pooled[:, :, None, None]))

    def behind_map(self, maps: Tensor) -> Tensor:
        """What `forward` gives (n, dimension) where the last map (n, features, h, w) of the backbone is known."""
        rest = getattr(self.backbone, "forward_head", None)
        features = maps.mean((2, 3)) if rest is None else rest(maps)
        return normalize(self._embedded(features).float(), dim=1)

    def _embedded(self, features: Tensor) -> Tensor:
        return features if self.embedding is None else self.embedding(features)

    def load_state_dict(self, state_dict: Mapping[str, Any], *options: Any, **named: Any) -> Any:
        """As every module has it; the embedding layer is no longer a new one."""
        self.embedding_is_new = False
        here = {name: value for name, value in state_dict.items() if name not in self.backbone_elsewhere}
        return super().load_state_dict(here, *options, **named)

    def train(self, mode: bool = True) -> "Embedder":
        """Training or evaluation mode; frozen batch-norm layers stay in the latter."""
        super().train(mode)
        if self.freeze_batch_norm:
            for module in self.modules():
                if isinstance(module, nn.modules.batchnorm._BatchNorm):
                    module.eval()
        return self

    def parameter_groups(self, learning_rate: float, head_lr_multiplier: float = 1.0) -> list[dict[str, Any]]:
        """Groups for an optimiser: the backbone at `learning_rate`, the linear layer at `head_lr_multiplier` times
        it."""
        layers = [(self.backbone, learning_rate)]
        if self.embedding is not None:
            layers.append((self.embedding, learning_rate * head_lr_multiplier))
        return [
            {"params": [parameter for parameter in layer.parameters() if parameter.requires_grad], "lr": rate}
            for layer, rate in layers
        ]

    def embed(self, images: Images, *, batch_size: int = 64, workers: int = 0, progress: bool = True) -> Tensor:
        """Vectors (n, dimension), float32 on the CPU, of files, PIL images, an `ImageSet`, or prepared tensors.

        Files and PIL images go through the model's test transform; a Dataset or DataLoader yields tensors (3, h, w)
        for `forward`, alone or first in a tuple. The mode the model was in is restored.
        """
        if isinstance(images, (str, Path, Image.Image)):
            raise TypeError(f"embed takes several images: give [{images!r}]")
        if isinstance(images, DataLoader):
            loader = images
        else:
            dataset = images if isinstance(images, Dataset) else _TestViews(images, self.transform)
            loader = DataLoader(dataset, batch_size=batch_size, num_workers=workers)
        total = len(loader.dataset) if isinstance(loader.dataset, Sized) else 0
        parts = [np.zeros((0, self.dimension), np.float32)]
        with (
            freed_memory_kept() if total > batch_size else nullcontext(),
            Progress("Embedding", total, "images", shown=progress) as line,
        ):
            batches = ((batch if isinstance(batch, Tensor) else batch[0], None) for batch in loader)
            for vectors, _ in self.embed_batches(batches):
                parts.append(vectors)
                line.advance(len(vectors))
        return torch.from_numpy(np.concatenate(parts))

    def embed_batches(
        self, batches: Iterable[tuple[Tensor, Tag]], *, features: bool = False
    ) -> Iterator[tuple[np.ndarray, Tag]]:
        """The vectors (n, dimension), float32, of each batch (images, tag), together with its tag.

        With `features` they are what the backbone gives, before the linear layer. The model is in evaluation mode while
        this lasts.
        """
        device, embed = self.device, self.features if features else self
        with self.evaluating():
            for images, tag in batches:
                with torch.inference_mode():  # ends before the caller goes on with the vectors
                    vectors = embed(images.to(device, non_blocking=True)).float().cpu().numpy()
                yield vectors, tag

    @contextmanager
    def evaluating(self) -> Generator[None]:
        """In evaluation mode while this lasts; afterwards each layer is in the mode that it was in."""
        modes = [(module, module.training) for module in self.modules()]
        self.eval()
        try:
            yield
        finally:
            for module, mode in modes:
                module.training = mode

    def for_queries(self) -> "Embedder":
        """This model, quicker with few images at a time: it keeps its folded weights, as large as those it learns."""
        cpu.keep_folded(self.backbone)
        return self

    def save(self, folder: Path | str, *, data_set: str = "", metrics: dict[str, Any] | None = None) -> Path:
        """Write the model as one folder: `model.safetensors`, `model.json`, which says how to use it, and a card."""
        description = {
            "architecture": self.architecture,
            "dimension": None if self.embedding is None else self.dimension,
            "head_init": self.head_init,
            "freeze_batch_norm": self.freeze_batch_norm,
            "transform": self.transform.to_dict(),
            "data_set": data_set,
            "metrics": metrics or {},
        }
        written = write_model(folder, {**self.backbone_elsewhere, **self.state_dict()}, description)
        write_card(written, description)
        return written

    @classmethod
    def load(cls, folder: Path | str) -> "Embedder":
        """The model of a folder that `save` wrote, ready to embed."""
        state, config = read_model(folder)
        dimension, head, hidden = config["dimension"], state.get("embedding.weight"), state.get(_HIDDEN)
        if (None if head is None else len(head)) != dimension:  # before a layer of any size is made
            raise ValueError(f"{folder}: model.json says {dimension} dimensions, which the weights do not have")
        try:
            transform = Transform.from_dict(config["transform"])
            model = cls(
                config["architecture"],
                dimension,
                hidden=0 if hidden is None else len(hidden),
                size=transform.size,
                pretrained=False,
                freeze_batch_norm=bool(config.get("freeze_batch_norm", True)),
            )
        except (KeyError, TypeError, ValueError, RuntimeError) as error:
            raise ValueError(f"{folder}: model.json does not describe a model: {error}") from error
        model.transform = transform
        model.head_init = config.get("head_init", model.head_init)
        load_state(model, state, folder)
        return model.eval()

    @classmethod
    def from_pretrained(cls, name: Path | str) -> "Embedder":
        """The model of a folder that `save` wrote, or of a repository "owner/name" on the Hugging Face hub."""
        return cls.load(name if Path(name).is_dir() else hub_folder(str(name)))


class EmbeddingLayer(nn.Linear):
    """A linear layer plus a network of `hidden` units, whose part in the sum starts at zero.

    So whatever the linear layer starts as, a projection for example, is what the whole starts as.
    """

    def __init__(self, features: int, dimension: int, hidden: int) -> None:
        super().__init__(features, dimension)
        self.hidden, self.last = nn.Linear(features, hidden), nn.Linear(hidden, dimension, bias=False)
        nn.init.zeros_(self.last.weight)

    def forward(self, input: Tensor) -> Tensor:
        return super().forward(input) + self.last(nn.functional.gelu(self.hidden(input)))


class GivenFeatures(nn.Module):
    """Instead of a backbone that has done its work already: (n, features, 1, 1) -> (n, features)."""

    place: Tensor

    def __init__(self, features: int) -> None:
        super().__init__()
        self.head_hidden_size = features  # as timm calls it
        self.register_buffer("place", torch.empty(0), persistent=False)  # says on which device the model is

    def forward(self, features: Tensor) -> Tensor:
        return features.flatten(1)


class _TestViews(Dataset[Tensor]):
    """Images by file, as PIL images or in a set, read and transformed one by one."""

    def __init__(self, images: "Sequence[Path | str | Image.Image] | ImageSet", transform: Transform) -> None:
        self.images, self.transform = images, transform

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> Tensor:
        shorter_side = self.transform.enough_pixels(train=False)
        if isinstance(self.images, ImageSet):
            image = self.images.read(index, shorter_side)
        else:
            image = self.images[index]
            if isinstance(image, (Tensor, np.ndarray)):
                raise TypeError(
                    f"embed takes files and PIL images, not a {type(image).__name__} for each: give "
                    "Image.fromarray(...) of pixels, or a TensorDataset of tensors that are prepared"
                )
            image = as_rgb(image) if isinstance(image, Image.Image) else read_image(image, shorter_side=shorter_side)
        return self.transform.test(image)


def open_model(
    name: Path | str,
    *,
    dimension: int | None = None,
    hidden: int = 0,
    size: int | None = None,
    weights: str | None = None,
    seed: int | None = None,
) -> Embedder:
    """The trained model of a folder, or the network NAME or NAME@SIZE with a new embedding layer, drawn by the seed.

    Without a dimension a network gives its own features; with `hidden` the layer has that many hidden units beside
    it. `weights` is a file instead of the published weights, or "none" for random ones.
    """
    if Path(name).is_dir():
        return Embedder.load(name)
    architecture, _, side = str(name).partition("@")
    if "/" in architecture or "\\" in architecture or (side and not side.isdecimal()):
        raise ValueError(f"There is no model folder {name}: give the folder that smoothap train wrote, or a timm name")
    if side and size not in (None, int(side)):
        raise ValueError(f"{name} and a size of {size} do not agree: give one of them")
    if seed is not None:
        torch.manual_seed(seed)
    pretrained = True if weights is None else False if weights == "none" else Path(weights)
    return Embedder(architecture, dimension, hidden=hidden, size=int(side) if side else size, pretrained=pretrained)
