"""How a server learns from files: what a ``serve`` or ``distill`` run is frozen with."""

from __future__ import annotations

from dataclasses import dataclass

from fedol.config import ModelName, Settings
from fedol.errors import InputError
from fedol.methods import Distillation, knowing
from fedol.robust import defence
from fedol.training import Recipe


@dataclass(frozen=True)
class ServerConfig(Settings):
    """The defaults are the paper's, except for the defence."""

    # Not clients/*.fedol: what clients have sent, perhaps only once, is not this server's to make again.
    written = ("task.json", "roster.json", "nodes.json", "screening.json", "MODEL_CARD.md")

    task: str  # its id
    server_model: ModelName = "resnet56"
    width: int = 16
    method: str = "fedol"
    iterations: int = 10
    tau: float = 0.2
    rho: float = 0.1
    rho_step: float = 0.05
    defence: str = defence.DEFAULT  # unlike the paper's server, this one hears strangers
    epochs: int = 50
    batch_size: int = 64
    lr: float = 1e-3
    augment: bool = False  # random flip and crop
    schedule: str = "constant"  # of the learning rate: constant, cosine or one-cycle
    patch: str = "none"  # in the images: none, cutout or cutmix
    average: float = 0.0  # decay of the running average of the weights; 0: the last weights count
    weight_decay: float = 0.0  # AdamW's
    seed: int = 0
    device: str = "auto"
    parent: str = ""  # where it continues another run: the hash of that run's model
    added: tuple[str, ...] = ()  # and the hashes of the files that are new

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "defence", defence.canonical(self.defence))
        knowing(self.method)
        if self.width < 1:
            raise InputError(f"width must be at least 1, but is {self.width}.")
        _ = self.distillation  # what it refuses is refused now

    @property
    def distillation(self) -> Distillation:
        """The part that the method and the training see."""
        recipe = Recipe(
            self.epochs, self.batch_size, self.lr,
            augment=self.augment, patch=self.patch, schedule=self.schedule, average=self.average,
            weight_decay=self.weight_decay,
        )  # fmt: skip
        defences = defence.Defence.parse(self.defence)
        return Distillation(self.method, self.iterations, self.tau, self.rho, self.rho_step, recipe, defences)
