"""The training loop, top to bottom: batches, the step, validation, checkpoints."""

import signal
import threading
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial, wraps
from inspect import signature
from pathlib import Path
from types import FrameType
from typing import ParamSpec, Protocol

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from smoothap._core.devices import chosen_device, pins_memory, set_seed
from smoothap._core.distributed import Processes
from smoothap._core.files import is_full, locked, sweep
from smoothap._core.memory import freed_memory_kept
from smoothap._core.precision import float32_networks
from smoothap._core.progress import Progress
from smoothap.data.dataset import Batch, ImageDataset, fits_in_memory, training_batches
from smoothap.data.image_set import ImageSet
from smoothap.data.samplers import BalancedBatches, Batches
from smoothap.functional.diagnostics import approximation_error, operating_share
from smoothap.models import Embedder
from smoothap.models.folder import read_model
from smoothap.training import checkpoint
from smoothap.training._loss_parameters import parameter_groups
from smoothap.training._queue import EmbeddingQueue
from smoothap.training._two_pass import refuse_batch_statistics, two_pass
from smoothap.training.checkpoint import State
from smoothap.training.evaluation import embed_set, evaluate_embedded
from smoothap.training.head_init import start_as_projection
from smoothap.training.log import Log
from smoothap.training.precision import loss_scaler, network_precision, warn_of_noise
from smoothap.training.settings import Settings

MODEL = "model"  # the folder of the best model, in that of the training
Arguments = ParamSpec("Arguments")
_alone_in: ContextVar[Path | None] = ContextVar("alone_in", default=None)  # the folder that this thread is alone in


class TrainingStopped(ValueError):  # noqa: N818
    """Training cannot go on; the message says why, what stays, and what to do."""


@dataclass(frozen=True)
class Result:
    """How a training ended: the steps done, and the best mAP on the validation classes with its step.

    Without validation classes that is NaN, and the step is the last.
    """

    steps: int
    best: float
    best_step: int
    finished: bool  # False where it was interrupted; a time limit is an end too


class Callbacks(Protocol):
    """What a method does besides its loss; what it must remember stands in buffers of the loss, which are saved."""

    def before_epoch(self, epoch: int, model: Embedder, dataset: ImageDataset) -> None:
        """Before the batches of an epoch are drawn; not again where a training goes on in the middle of one."""
        ...

    def before_step(self, rows: Tensor) -> None:
        """Before the loss of a batch, with the rows of its images in the set, (b,), over all processes."""
        ...


@contextmanager
def alone_in(folder: Path | str) -> Generator[None]:
    """Let one training at a time write to a folder; to ask for it again inside, as `train` does, is no second one."""
    place = Path(folder).resolve()
    if Processes.here().rank > 0 or _alone_in.get() == place:
        yield
        return
    with locked(place, f"Another process is training in {folder}: wait until it is done, or choose another folder."):
        sweep(place)
        sweep(place / MODEL)
        before = _alone_in.set(place)
        try:
            yield
        finally:
            _alone_in.reset(before)


def _in_its_folder(train: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """The training, alone in its folder; afterwards torch has as many threads again as before."""

    @wraps(train)
    def alone(*arguments: Arguments.args, **options: Arguments.kwargs) -> Result:
        threads = torch.get_num_threads()
        torch.set_num_threads(threads)  # to set it makes MKL keep to it, as it must in a resumed training too
        try:
            with alone_in(signature(train).bind(*arguments, **options).arguments["folder"]):
                return train(*arguments, **options)
        finally:
            torch.set_num_threads(threads)

    return alone


@_in_its_folder
@freed_memory_kept()
def train(
    model: Embedder,
    loss: nn.Module,
    images: ImageSet,
    validation: ImageSet | None,
    settings: Settings,
    folder: Path | str,
    *,
    resume: bool = False,
    minutes: float | None = None,
    to_beat: float = -1.0,
    batches: Batches | None = None,
    callbacks: Callbacks | None = None,
    device: torch.device | str | None = None,
    workers: int = 0,
    tensorboard: bool = False,
) -> Result:
    """Fine-tune `model` on `images`; the epoch that does best on `validation`, of other classes, is kept.

    `loss(embeddings, labels)` sees the whole batch of all processes. `folder` receives the checkpoint, `metrics.jsonl`
    and the best model in `model/`; at the end `model` holds its weights. With `resume` a training that was cut off
    goes on from its checkpoint, with the number of threads it began with, and one without a checkpoint begins.
    `batches` takes the place of balanced ones; `callbacks` are called before each epoch and step. An epoch that does
    not beat the start, and `to_beat`, an mAP on `validation`, is not kept: where none does, the best step is 0, and the
    model the one that the training began with. Without `validation` the last model is kept.
    """
    folder, processes = Path(folder), Processes.here()
    writes = processes.rank == 0
    device = chosen_device(device)
    if checkpoint.exists(folder) and not resume:
        raise ValueError(f"{folder} already holds a training: go on with --resume, or choose another folder")

    # Data: which images form each batch is a function of (seed, step), each random view one of (seed, position).
    _check_classes(images, validation, settings)
    if batches is None:
        batches = BalancedBatches(
            images.labels, settings.batch_size, settings.samples_per_class, by_size=settings.by_size,
            seed=settings.seed, rank=processes.rank, ranks=processes.number,
        )  # fmt: skip
    per_epoch, total = len(batches), settings.total_steps(len(batches))
    epochs = -(-total // per_epoch)
    suffix = f"-{processes.rank}" if processes.rank else ""

    def views_of(image_set: ImageSet, part: str) -> ImageDataset:
        report, in_memory = folder / f"unreadable-{part}{suffix}.csv", fits_in_memory(image_set, model.transform)
        return ImageDataset(image_set, model.transform, report=report, in_memory=in_memory)

    dataset = views_of(images, "train")
    validation_dataset = None if validation is None else views_of(validation, "validation")

    # Model, optimiser and what else a checkpoint holds.
    model.to(device).train()
    loss.to(device)
    if settings.micro_batch_size is not None:
        refuse_batch_statistics(model)
    groups = model.parameter_groups(settings.learning_rate, settings.head_lr_multiplier)
    groups += parameter_groups(loss, settings)
    adam = torch.optim.AdamW if settings.optimiser == "adamw" else torch.optim.Adam
    optimiser = adam(groups, weight_decay=settings.weight_decay)
    rates = [group["lr"] for group in optimiser.param_groups]
    dtype, tf32 = network_precision(settings, loss, device), settings.precision == "tf32"
    scaler = loss_scaler(dtype, device)
    queue = EmbeddingQueue(settings.memory_size, model.dimension, device) if settings.memory_size else None
    state = State(model, loss, optimiser, scaler, queue)
    described = {
        **settings.to_dict(), "data_set": images.name, "images": len(images), "architecture": model.architecture,
        "dimension": model.dimension, "size": model.transform.size, "crops": model.transform.name,
        "min_crop_area": model.transform.min_crop_area, "flip": model.transform.flip,
        "trained_on": dataset.identity(),
        "validated_on": None if validation_dataset is None else validation_dataset.identity(),
    }  # fmt: skip
    projects = settings.head_init != "random" and model.embedding_is_new
    if resume and checkpoint.exists(folder):
        checkpoint.read(folder, state, described)
        model.head_init = settings.head_init if projects else model.head_init
    elif projects:
        start_as_projection(model, dataset, settings.head_init, workers=workers)
    replica = DistributedDataParallel(model) if processes.number > 1 else model

    def embed(pixels: Tensor, dtype: torch.dtype = dtype) -> Tensor:
        with torch.autocast(device.type, dtype, enabled=dtype != torch.float32):
            return replica(pixels.to(device, non_blocking=True))

    def batches_from(step: int) -> Iterator[Batch]:
        """Every batch from `step` on; no batch of an epoch is drawn before the callbacks of that epoch are called."""
        load = partial(training_batches, dataset, batches, workers=workers, pin_memory=pins_memory(device))
        first, skipped = divmod(step, per_epoch)
        if callbacks is None:
            yield from load(epochs=epochs, start=(first, skipped))
            return
        for epoch in range(first, epochs):
            if skipped == 0:
                callbacks.before_epoch(epoch, model, dataset)
            yield from load(epochs=epoch + 1, start=(epoch, skipped))
            skipped = 0

    def validate() -> None:
        """Keep the model where it is the best so far, or the last one where there is nothing to validate it on."""
        if validation is None or validation_dataset is None:
            state.best_step = state.step
            if writes:
                model.save(folder / MODEL, data_set=images.name, metrics={})
            return
        report = evaluate_embedded(embed_set(model, validation_dataset, workers=workers, shown=False), validation)
        row = {
            "epoch": -(-state.step // per_epoch),
            "step": state.step,
            "validation_map": report.mean_average_precision,
        }
        log.write(row | {f"validation_recall_at_{k}": value for k, value in report.recall.items()})
        if state.step == 0 or report.mean_average_precision > max(state.best, to_beat):
            state.best, state.best_step = report.mean_average_precision, state.step
            if writes:
                model.save(folder / MODEL, data_set=images.name, metrics={"validation": report.summary()})

    started = time.monotonic() - state.seconds  # as if the training had never been cut off
    interrupted = timed_out = False
    try:
        with (
            closing(Log(folder, state.step, tensorboard=tensorboard, writes=writes)) as log,
            _caught_signals() as signals,
            float32_networks(tf32=tf32),
            Progress("Training", (total - state.step) * settings.batch_size, "images", shown=writes) as line,
        ):
            if state.step == 0:
                validate()  # where it starts from
            step_began = time.monotonic()
            for batch in batches_from(state.step):
                if state.step == total:
                    break
                if state.step == 0:
                    warn_of_noise(embed, batch.images, dtype, loss, tf32=tf32)
                factor = settings.rate_factor(state.step, per_epoch)
                for group, rate in zip(optimiser.param_groups, rates, strict=True):
                    group["lr"] = rate * factor
                seeds = np.random.SeedSequence((settings.seed, state.step, processes.rank))
                set_seed(device, int(seeds.generate_state(1, np.uint64)[0] >> 1))  # dropout
                optimiser.zero_grad()

                labels = processes.gather(batch.labels.to(device))
                if callbacks is not None:
                    callbacks.before_step(processes.gather(batch.rows.to(device)))
                backward = partial(loss_backward, loss, labels, processes=processes, queue=queue, scaler=scaler)
                if settings.micro_batch_size is None or settings.micro_batch_size >= len(batch.images):
                    embeddings = embed(batch.images)
                    value = backward(embeddings)
                else:
                    value, embeddings = two_pass(replica, embed, batch.images, backward, settings.micro_batch_size)
                mean_loss = float(value)
                if not np.isfinite(mean_loss):
                    raise ValueError(f"the loss is {mean_loss}; try a lower learning rate, a warm-up or clipping")
                scaler.unscale_(optimiser)
                if settings.clip is not None:
                    torch.nn.utils.clip_grad_norm_(model.parameters(), settings.clip)
                scaler.step(optimiser)
                scaler.update()
                state.step += 1

                row = {
                    "epoch": -(-state.step // per_epoch),
                    "step": state.step,
                    "loss": mean_loss,
                    "learning_rate": optimiser.param_groups[0]["lr"],
                }
                diagnosed = state.step % settings.diagnose_every == 0
                if queue is not None or diagnosed:
                    embeddings = processes.gather(embeddings.detach())
                if queue is not None and state.step > settings.memory_after:
                    queue.add(embeddings, labels)
                if diagnosed:
                    row["operating_share"] = operating_share(embeddings, settings.tau)
                    row["approximation_error"] = approximation_error(embeddings, labels, settings.tau)
                now = time.monotonic()
                row["images_per_second"] = round(settings.batch_size / (now - step_began), 1)
                step_began = now
                log.write(row)
                line.description = f"Epoch {row['epoch']}/{epochs}, step {state.step}, loss {mean_loss:.4f}"
                line.advance(settings.batch_size)

                interrupted = processes.any(bool(signals))
                timed_out = processes.any(minutes is not None and time.monotonic() - started >= 60 * minutes)
                epoch_over = state.step % per_epoch == 0 or state.step == total or timed_out
                if epoch_over:
                    validate()
                if writes and (epoch_over or interrupted or state.step % settings.checkpoint_every == 0):
                    state.seconds = time.monotonic() - started
                    checkpoint.write(folder, state, described)
                if interrupted or timed_out:
                    break
    except (ValueError, OSError) as error:
        if isinstance(error, OSError) and not is_full(error):
            raise
        reason = "the disk is full" if is_full(error) else str(error).rstrip(".")
        stays = f"the last good checkpoint stays in {folder}, and --resume goes on from there"
        raise TrainingStopped(
            f"Training stopped after step {state.step}: {reason}; "
            f"{stays if checkpoint.exists(folder) else 'there is no checkpoint yet'}."
        ) from error
    processes.wait()
    model.load_state_dict(read_model(folder / MODEL)[0])
    best, finished = state.best if validation else float("nan"), state.step == total or (timed_out and not interrupted)
    return Result(state.step, best, state.best_step, finished)


def loss_backward(
    loss: nn.Module,
    labels: Tensor,
    embeddings: Tensor,
    *,
    processes: Processes,
    queue: EmbeddingQueue | None = None,
    scaler: torch.amp.GradScaler | None = None,
) -> Tensor:
    """The loss of the batch of all processes, with the queue as further items to rank; sends its gradient back.

    embeddings (b, d) of this process, labels (processes * b,) of all.
    """
    everyone = processes.gather(embeddings)
    further = queue.extend(everyone, labels) if queue is not None and len(queue) else {}
    value = loss(everyone, labels, **further)
    scaled = value * processes.number  # `Processes.gather` says why
    (scaled if scaler is None else scaler.scale(scaled)).backward()
    for parameter in loss.parameters():
        if parameter.grad is not None:
            parameter.grad /= processes.number
    return value.detach()


@contextmanager
def _caught_signals() -> Generator[list[int]]:
    """The signals so far: a first Ctrl-C or SIGTERM is only noted, so that the step can end; a second interrupts."""
    caught: list[int] = []

    def catch(number: int, frame: FrameType | None) -> None:
        if caught:
            raise KeyboardInterrupt
        caught.append(number)

    here = threading.current_thread() is threading.main_thread()  # Python delivers signals there alone
    numbers = (signal.SIGINT, signal.SIGTERM) if here else ()
    former = {number: signal.signal(number, catch) for number in numbers}
    try:
        yield caught
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)


def _check_classes(images: ImageSet, validation: ImageSet | None, settings: Settings) -> None:
    sizes = np.bincount(images.labels)
    lonely = int((sizes == 1).sum())
    if 2 * lonely > len(sizes):
        raise ValueError(
            f"{lonely} of the {len(sizes)} classes of {images.name} have one image only, and a query of theirs has "
            f"nothing to find: training wants at least 2 images of a class, better {settings.samples_per_class} or more"
        )
    if validation is not None and np.bincount(validation.labels).max() < 2:
        raise ValueError(f"No class of {validation.name} has two images, so that nothing can be validated: add some")
