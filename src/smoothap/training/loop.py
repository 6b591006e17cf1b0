"""The training loop, top to bottom: batches, the step, validation, checkpoints."""

import signal
import threading
import time
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.parallel import DistributedDataParallel

from smoothap._core.devices import chosen_device, pins_memory, set_seed
from smoothap._core.distributed import Processes
from smoothap._core.files import is_full, locked, sweep
from smoothap._core.memory import freed_memory_kept
from smoothap._core.precision import float32_networks
from smoothap._core.progress import Progress
from smoothap.data.dataset import Batch, ImageDataset, training_batches
from smoothap.data.decoded import decoded_once
from smoothap.data.image_set import ImageSet
from smoothap.data.samplers import BalancedBatches, Batches
from smoothap.functional.diagnostics import approximation_error, operating_share
from smoothap.models import Embedder
from smoothap.models.embedding import embed_set
from smoothap.models.folder import read_model
from smoothap.training import checkpoint
from smoothap.training.checkpoint import State
from smoothap.training.config import HERE, RunOptions, TrainingConfig
from smoothap.training.evaluation import evaluate_embedded
from smoothap.training.gradients import EmbeddingMemory, cached_gradient, loss_backward, refuse_batch_statistics
from smoothap.training.head_init import start_as_projection
from smoothap.training.log import Log
from smoothap.training.loss import Loss, TrainingSetup, build_loss, parameter_groups
from smoothap.training.precision import loss_scaler, network_precision, warn_of_noise

MODEL = "model"  # the folder of the best model, in that of the training


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


@contextmanager
def alone_in(folder: Path | str) -> Generator[None]:
    """Let one training at a time write to a folder, and delete what one that was killed left half written."""
    place = Path(folder).resolve()
    if Processes.here().rank > 0:
        yield
        return
    with locked(place, f"Another process is training in {folder}: wait until it is done, or choose another folder."):
        sweep(place)
        sweep(place / MODEL)
        yield


@contextmanager
def _threads_kept() -> Generator[None]:
    """Afterwards torch has as many threads again as before."""
    threads = torch.get_num_threads()
    torch.set_num_threads(threads)  # to set it makes MKL keep to it, as it must in a resumed training too
    try:
        yield
    finally:
        torch.set_num_threads(threads)


@_threads_kept()
@freed_memory_kept()
def train(
    model: Embedder,
    loss: Loss,
    images: ImageSet,
    validation: ImageSet | None,
    config: TrainingConfig,
    folder: Path | str,
    options: RunOptions = HERE,
    *,
    batches: Batches | None = None,
    to_beat: float = -1.0,
) -> Result:
    """Fine-tune `model` on `images`; the epoch that does best on `validation`, of other classes, is kept.

    `loss(embeddings, labels)` sees the whole batch of all processes. `folder`, which `alone_in` keeps others out of,
    receives the checkpoint, `metrics.jsonl` and the best model in `model/`; at the end `model` holds its weights. A
    resumed training goes on from its checkpoint, with the number of threads it began with. Without `batches` they are
    balanced over the classes. An epoch that does not beat the start, and `to_beat`, an mAP on `validation`, is not
    kept: where none does, the best step is 0, and the model the one that the training began with. Without `validation`
    the last model is kept.
    """
    folder, processes = Path(folder), Processes.here()
    writes = processes.rank == 0
    device, workers = chosen_device(options.device), options.workers
    if checkpoint.exists(folder) and not options.resume:
        raise ValueError(f"{folder} already holds a training: go on with --resume, or choose another folder")

    # Data: which images form each batch is a function of (seed, step), each random view one of (seed, position).
    _check_classes(images, validation, config)
    if batches is None:
        batches = BalancedBatches(
            images.ranked_labels(np.arange(len(images))), config.batch_size, config.samples_per_class,
            by_size=config.by_size, seed=config.seed, rank=processes.rank, ranks=processes.number,
        )  # fmt: skip
    parts = build_loss(loss, TrainingSetup(images, model, config, batches))
    loss, callbacks, batches = parts.loss, parts.callbacks, parts.batches or batches
    config = replace(config, **parts.changes)
    if callbacks is not None and processes.number > 1:
        raise ValueError(f"{parts.name} clusters the training images in one process: train it without torchrun")
    per_epoch, total = len(batches), config.total_steps(len(batches))
    in_a_step = (
        len(next(batches.draws(0))) * processes.number
    )  # images; a recipe's batches may have a size of their own
    epochs = -(-total // per_epoch)
    suffix = f"-{processes.rank}" if processes.rank else ""

    def views_of(image_set: ImageSet, part: str) -> ImageDataset:
        held = decoded_once(image_set, model.transform)
        return ImageDataset(held, model.transform, report=folder / f"unreadable-{part}{suffix}.csv")

    dataset = views_of(images, "train")
    validation_dataset = None if validation is None else views_of(validation, "validation")

    # Model, optimiser and what else a checkpoint holds.
    model.to(device).train()
    loss.to(device)
    if config.micro_batch_size is not None:
        refuse_batch_statistics(model)
    groups = model.parameter_groups(config.learning_rate, config.head_lr_multiplier)
    groups += parameter_groups(loss, config)
    optimiser = _optimiser(groups, config)
    rates = [group["lr"] for group in optimiser.param_groups]
    dtype, tf32 = network_precision(config, loss, device), config.precision == "tf32"
    scaler = loss_scaler(dtype, device)
    memory = EmbeddingMemory(config.memory_size, model.dimension, device) if config.memory_size else None
    state = State(model, loss, optimiser, scaler, memory)
    identity = {
        **config.to_dict(), "loss": parts.name or None, "data_set": images.name, "images": len(images),
        "architecture": model.architecture, "dimension": model.dimension, "size": model.transform.size,
        "crops": model.transform.name, "min_crop_area": model.transform.min_crop_area, "flip": model.transform.flip,
        "trained_on": dataset.identity(),
        "validated_on": None if validation_dataset is None else validation_dataset.identity(),
    }  # fmt: skip
    projects = config.head_init != "random" and model.embedding_is_new
    if options.resume and checkpoint.exists(folder):
        checkpoint.read(folder, state, identity)
        read_model(folder / MODEL)  # the best so far, which may be what remains in the end: refused before the training
        model.head_init = config.head_init if projects else model.head_init
    elif projects:
        start_as_projection(model, dataset, config.head_init, workers=workers)
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
    limit = float("inf") if options.minutes is None else options.minutes
    interrupted = timed_out = False
    try:
        with (
            closing(Log(folder, state.step, tensorboard=options.tensorboard, writes=writes)) as log,
            _caught_signals() as signals,
            float32_networks(tf32=tf32),
            Progress("Training", (total - state.step) * in_a_step, "images", shown=writes) as line,
        ):
            if state.step == 0:
                validate()  # where it starts from
            step_began = time.monotonic()
            for batch in batches_from(state.step):
                if state.step == total:
                    break
                if state.step == 0:
                    warn_of_noise(embed, batch.images, dtype, loss, tf32=tf32)
                factor = config.rate_factor(state.step, per_epoch)
                for group, rate in zip(optimiser.param_groups, rates, strict=True):
                    group["lr"] = rate * factor
                seeds = np.random.SeedSequence((config.seed, state.step, processes.rank))
                set_seed(device, int(seeds.generate_state(1, np.uint64)[0] >> 1))  # dropout
                optimiser.zero_grad()

                labels = processes.gather(batch.labels.to(device))
                if callbacks is not None:
                    callbacks.before_step(processes.gather(batch.rows.to(device)))
                backward = partial(loss_backward, loss, labels, processes=processes, memory=memory, scaler=scaler)
                if config.micro_batch_size is None or config.micro_batch_size >= len(batch.images):
                    embeddings = embed(batch.images)
                    value = backward(embeddings)
                else:
                    value, embeddings = cached_gradient(replica, embed, batch.images, backward, config.micro_batch_size)
                mean_loss = float(value)
                if not np.isfinite(mean_loss):
                    raise ValueError(f"the loss is {mean_loss}; try a lower learning rate, a warm-up or clipping")
                scaler.unscale_(optimiser)
                if config.clip is not None:
                    torch.nn.utils.clip_grad_norm_(model.parameters(), config.clip)
                scaler.step(optimiser)
                scaler.update()
                state.step += 1

                row = {
                    "epoch": -(-state.step // per_epoch),
                    "step": state.step,
                    "loss": mean_loss,
                    "learning_rate": optimiser.param_groups[0]["lr"],
                }
                diagnosed = state.step % config.diagnose_every == 0
                if memory is not None or diagnosed:
                    embeddings = processes.gather(embeddings.detach())
                if memory is not None and state.step > config.memory_after:
                    memory.add(embeddings, labels)
                if diagnosed:
                    row["operating_share"] = operating_share(embeddings, config.tau)
                    row["approximation_error"] = approximation_error(embeddings, labels, config.tau)
                now = time.monotonic()
                row["images_per_second"] = round(in_a_step / (now - step_began), 1)
                step_began = now
                log.write(row)
                line.description = f"Epoch {row['epoch']}/{epochs}, step {state.step}, loss {mean_loss:.4f}"
                line.advance(in_a_step)

                interrupted = processes.any(bool(signals))
                timed_out = processes.any(time.monotonic() - started >= 60 * limit)
                epoch_over = state.step % per_epoch == 0 or state.step == total or timed_out
                if epoch_over:
                    validate()
                if writes and (epoch_over or interrupted or state.step % config.checkpoint_every == 0):
                    state.seconds = time.monotonic() - started
                    checkpoint.write(folder, state, identity)
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


def _optimiser(groups: list[dict[str, Any]], config: TrainingConfig) -> torch.optim.Optimizer:
    if config.optimiser == "sgd":
        return torch.optim.SGD(groups, momentum=config.momentum, weight_decay=config.weight_decay)
    adam = torch.optim.AdamW if config.optimiser == "adamw" else torch.optim.Adam
    return adam(groups, weight_decay=config.weight_decay)


def _check_classes(images: ImageSet, validation: ImageSet | None, config: TrainingConfig) -> None:
    sizes = np.bincount(images.labels)
    lonely = int((sizes == 1).sum())
    if 2 * lonely > len(sizes):
        raise ValueError(
            f"{lonely} of the {len(sizes)} classes of {images.name} have one image only, and a query of theirs has "
            f"nothing to find: training wants at least 2 images of a class, better {config.samples_per_class} or more"
        )
    if validation is not None and np.bincount(validation.labels).max() < 2:
        raise ValueError(f"No class of {validation.name} has two images, so that nothing can be validated: add some")
