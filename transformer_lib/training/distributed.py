"""Several processes, one run: how they communicate, and how they share batches and model.

``torchrun`` starts the processes; PyTorch's ``DistributedDataParallel`` or ``fully_shard`` adds up
their gradients. What's left is to make them compute what one process would.
"""

import atexit
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from transformer_lib.validation import as_device

__all__ = ["Ranks", "join", "local_device", "parts", "share", "whole", "whole_model", "wrap"]


def local_device(device: str = "auto") -> torch.device:
    """Choose the device of this process: under ``torchrun``, each process gets its own GPU.

    Args:
        device: ``"auto"`` is the GPU if there is one; else a name such as ``"cpu"``.

    Raises:
        TypeError: ``device`` is not a string.
        ValueError: no device has that name, or this machine doesn't have it.

    Example:
        >>> local_device("cpu")
        device(type='cpu')
    """
    if not isinstance(device, str):
        raise TypeError(f"device must be a string such as 'cpu', got {device!r}")
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cuda" and "LOCAL_RANK" in os.environ:
        own = as_device("device", f"cuda:{os.environ['LOCAL_RANK']}")
        torch.cuda.set_device(own)
        return own
    return as_device("device", device)


@dataclass(frozen=True)
class Ranks:
    """The processes of a run, or the only one. They talk over the CPU: no GPU waits."""

    rank: int = 0  # of this process
    size: int = 1
    group: Any = None  # PyTorch's, for messages; None if alone

    @property
    def first(self) -> bool:
        """Whether this is the process that writes."""
        return self.rank == 0

    def gather(self, value: Any) -> list[Any]:
        """Wait for every rank; return their values in order of rank, the same list on all."""
        if not self.group:
            return [value]
        values: list[Any] = [None] * self.size
        dist.all_gather_object(values, value, group=self.group)
        return values


def join(device: torch.device) -> Ranks:
    """Join the processes that ``torchrun`` started, if any; ``device`` is the model's.

    The process group remains for later runs. It's destroyed before the process ends, which a
    running thread of Gloo would abort.
    """
    if not dist.is_available():
        return Ranks()
    if not dist.is_initialized():
        if "RANK" not in os.environ or os.environ.get("WORLD_SIZE", "1") == "1":
            return Ranks()
        dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
        atexit.register(_leave)
    if dist.get_world_size() == 1:
        return Ranks()
    return Ranks(dist.get_rank(), dist.get_world_size(), dist.new_group(backend="gloo"))


def _leave() -> None:
    if dist.is_initialized():  # the caller may have done it
        dist.destroy_process_group()


def wrap(model: nn.Module, ranks: Ranks, how: str) -> Any:
    """Wrap the model to average gradients over all ranks, which start from rank 0's parameters.

    ``how`` is ``"ddp"`` or ``"fsdp"``, which shards the parameters of the model itself. A single
    rank gets the model as it is.
    """
    if ranks.size == 1:
        return model
    device = next(model.parameters()).device
    if how == "ddp":
        return DistributedDataParallel(model, device_ids=None if device.type == "cpu" else [device])
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import FSDPModule, fully_shard

    if isinstance(model, FSDPModule):  # by an earlier run
        return model
    with torch.no_grad():
        for tensor in (*model.parameters(), *model.buffers()):
            dist.broadcast(tensor, src=0)
    mesh = init_device_mesh(device.type, (ranks.size,))
    # One unit per layer: only the parameters of the layer in use are gathered.
    for layers in [module for module in model.modules() if isinstance(module, nn.ModuleList)]:
        for layer in layers:
            fully_shard(layer, mesh=mesh)
    return fully_shard(model, mesh=mesh)


def share(model: Any, group: list[Any], ranks: Ranks) -> Iterator[tuple[Any, int]]:
    """This rank's batches of an update, each with its weight.

    Rank r takes every ``size``-th batch of the group, starting with number r. Gradients are
    averaged over the ranks, so a weight of ``size`` turns them into a sum. At the end of an epoch,
    a rank without a batch repeats the first with weight 0, since all must keep in step. They
    exchange gradients with the last batch only.
    """
    own = [(batch, ranks.size) for batch in group[ranks.rank :: ranks.size]]
    if len(own) * ranks.size < len(group):
        own.append((group[0], 0))
    for pair in own[:-1]:
        with _apart(model):
            yield pair
    yield own[-1]


@contextmanager
def _apart(model: Any) -> Iterator[None]:
    """Don't exchange gradients in the block."""
    if isinstance(model, DistributedDataParallel):
        with model.no_sync():
            yield
    elif hasattr(model, "set_requires_gradient_sync"):  # from fully_shard
        model.set_requires_gradient_sync(False)
        try:
            yield
        finally:
            model.set_requires_gradient_sync(True)
    else:
        yield


# For fully_shard: without it, these do nothing


def whole(tree: Any) -> Any:
    """Gather the sharded tensors in nested dicts and lists. All ranks must call it."""
    if isinstance(tree, dict):
        return {name: whole(value) for name, value in tree.items()}
    if isinstance(tree, list):
        return [whole(value) for value in tree]
    return tree.full_tensor() if hasattr(tree, "full_tensor") else tree


def parts(saved: Any, present: Any) -> Any:
    """The inverse of :func:`whole`: ``saved``, sharded where ``present`` is."""
    if isinstance(saved, dict) and isinstance(present, dict):
        return {name: parts(value, present.get(name)) for name, value in saved.items()}
    is_part = hasattr(present, "full_tensor")
    if is_part and isinstance(saved, Tensor) and saved.shape == present.shape:
        from torch.distributed.tensor import distribute_tensor

        return distribute_tensor(saved.to(present.device), present.device_mesh, present.placements)
    return saved


@contextmanager
def whole_model(model: Any) -> Iterator[None]:
    """Allow calls of any method of the model in the block, not only its forward."""
    if not hasattr(model, "unshard"):
        yield
        return
    model.unshard()
    try:
        yield
    finally:
        model.reshard()
