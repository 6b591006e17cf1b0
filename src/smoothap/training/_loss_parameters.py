"""Parameters that a loss itself learns: proxies, class weights, boundaries."""

from typing import Any

from torch import nn

from smoothap.training.settings import Settings


def parameter_groups(loss: nn.Module, settings: Settings) -> list[dict[str, Any]]:
    """The groups of an optimiser, without weight decay.

    A decay would move the proxies of all classes that are not in a batch, and Adam would make full steps of it. A part
    of the loss with a `learning_rate` learns at that one, all others at `loss_factor` times that of the network.
    """
    own_rates = {
        parameter: float(rate)
        for part in loss.modules()
        if (rate := getattr(part, "learning_rate", None)) is not None
        for parameter in part.parameters()
    }
    shared = settings.learning_rate * settings.loss_factor
    by_rate: dict[float, list[nn.Parameter]] = {}
    for parameter in loss.parameters():
        by_rate.setdefault(own_rates.get(parameter, shared), []).append(parameter)
    return [{"params": parameters, "lr": rate, "weight_decay": 0.0} for rate, parameters in by_rate.items()]
