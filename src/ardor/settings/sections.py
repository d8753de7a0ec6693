"""The settings of a run, by section, each with its type, range, default and a comment."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from ardor.settings.fields import Amount, Count, Rate, Settings, Share, Size, Time


def more_than_once(times: float) -> float:
    """The number, which is 0 or above 1."""
    if 0 < times <= 1:
        raise PydanticCustomError("times", "above 1, or 0 for none")
    return times


# In percent, or a share if it is at most 1; kept as a share.
Accuracy = Annotated[float, Field(ge=0, le=100), AfterValidator(lambda x: x / 100 if x > 1 else x)]
Times = Annotated[float, Field(ge=0, le=1e9), AfterValidator(more_than_once)]
Augmentation = Literal["crop", "flip", "mirror", "zoom", "brightness", "erase", "cutout"]
Start = Literal["scratch", "search"]
Normalising = Literal["batch", "posterior", "candidate"]
NOTHING = 1e6  # a threshold of pruning that no weight reaches
# Strict, as otherwise true would be 1.
Threshold = Annotated[float, Field(ge=-NOTHING, le=NOTHING, strict=True)] | Literal["auto"]
METHOD = "vinnas"  # unless another is named
LARGEST = 2**20  # bytes of a TOML file
LONGEST = 99_999  # epochs: the names of checkpoints have five digits, and are sorted


class DataConfig(Settings):
    """Where the images come from."""

    source: str = "digits"  # a folder, a file or a known name
    size: int = Field(default=0, ge=0, le=1024)  # pixels a side; 0 takes it from the images
    channels: Literal[0, 1, 3] = 0  # 0 takes it from the images
    test: Share = 0.2  # of each class, if the source has no test images; 0: none at all
    skip_broken: bool = False
    memory: Size = 0  # for images, e.g. "2GB"; 0: half of the free memory, 100 times a file's size


class Fitting(Settings):
    """How weights learn, in the search and in the training."""

    epochs: int = Field(default=20, ge=0, le=LONGEST)
    batch: int = Field(default=64, ge=2, le=1_000_000)
    accumulate: Count = 1  # micro-batches of a batch, for less memory; BatchNorms see one each
    optimiser: Literal["adam", "sgd", "adamw"] = "adam"  # adamw: its weight decay is decoupled
    rate: Rate = 0.001
    rate_end: Amount = 0.0  # at the end of the schedule
    schedule: Literal["cosine", "linear", "exponential", "constant"] = "cosine"
    rate_warmup: Share = 0.0  # of the epochs, in which the rate grows from zero
    momentum: Share = 0.9  # of sgd
    weight_decay: Amount = 3e-4
    clip: Rate = 5.0  # largest norm of the weights' gradient
    smoothing: Share = 0.0  # label smoothing
    augment: tuple[Augmentation, ...] = ("crop",)  # "mirror": flip, if classes survive it


class TeacherConfig(Settings):
    """A pretrained model that the final network learns from, beside the labels."""

    model: str = ""  # an ONNX file; "": no teacher
    classes: str = ""  # a TOML or JSON file, its outputs to our classes; "": they are ours
    unlabelled: str = ""  # images without labels, a folder or .npz, to learn from it alone
    input: Literal["auto", "pixels", "unit", "centred", "imagenet"] = "auto"  # pixels it takes
    temperature: float = Field(default=4.0, ge=0.1, le=100)  # its answers are softened by
    share: float = Field(default=0.5, ge=0, le=1)  # of its answer, beside an image's label


class SearchConfig(Fitting):
    """The search: weights and gates of the supernet."""

    time: Time = 0.0  # the search ends within it, e.g. "20m"; it decides the epochs; 0: no limit
    fraction: float = Field(default=1.0, gt=0, le=1)  # of the training images
    held_out: float = Field(default=0.5, gt=0, lt=1)  # share of those, for gates and ranking
    rounds: int = Field(default=1, ge=1, le=100)  # searches in a row; their mean posterior counts
    warmup: Share = 0.2  # share of the epochs of a round in which only weights learn
    gate_optimiser: Literal["adam", "sgd"] = "adam"
    gate_rate: Rate = 3e-4
    gate_momentum: Share = 0.9  # of sgd
    gate_schedule: Literal["cosine", "constant"] = "constant"
    gate_betas: tuple[Share, Share] = (0.5, 0.999)  # of adam
    gate_decay: Amount = 1e-3
    keep: Literal["last", "best"] = "last"  # gates of the last epoch, or of the least error
    stop_on_collapse: bool = False  # at the last epoch before cells fill with skips or pools
    shrink: int = Field(default=3, ge=0, le=LONGEST)  # epochs given up until removed; 0: never
    candidates: Count = 1  # drawn at the end and ranked on held-out images
    statistics: Normalising = "batch"  # for candidates: of images at once, or training images
    ensemble: int = Field(default=1, ge=1, le=10)  # so many of the best can predict together


class TrainConfig(Fitting):
    """The training of the found network."""

    start: Start = "scratch"  # or "search", with its weights: complete after hard gates, as of gdas
    epochs: int = Field(default=60, ge=0, le=LONGEST)
    time: Time = 0.0  # the training ends within it, e.g. "20m"; it decides the epochs; 0: no limit
    rate: Rate = 0.005
    weight_decay: Amount = 0.0
    variational: bool = True  # Gaussian weights, or plain; "auto": Gaussian if pruning is bounded
    kl: Amount = 1.0  # 1 is the ELBO
    kl_start: Share = 0.2  # the progress at which the KL begins to grow; 0.5 if "auto" is Gaussian
    mixup: Amount | Literal["auto"] = 0.0  # of Beta(a, a); "auto": by passes and images; 0: none
    max_weights: int = Field(default=0, ge=0, le=10**12)  # left of plain ones in the end; 0: all
    average: Share = 0.0  # momentum of the mean of weights over steps, e.g. 0.999; 0: no mean
    drop_path: Share = 0.0  # grows from zero to this rate at the end
    auxiliary_weight: Amount = 0.4  # of the auxiliary head's loss, where the network has one
    validation: Share = 0.1  # of the training images, held out to measure accuracy


class PruneConfig(Settings):
    """Which weights and channels are removed from the trained network."""

    threshold: Threshold = "auto"  # log(sigma^2 / mu^2) that leaves; "auto": 3, none if plain
    keep_accuracy: Accuracy = 0.0  # takes the smallest network that is this accurate; 0 is off
    max_params: int = Field(default=0, ge=0, le=10**12)  # the most accurate with no more; 0 is off
    max_macs: int = Field(default=0, ge=0, le=10**15)  # the same for multiply-adds of an image
    within: Share = 0.0  # takes the smallest that loses no more accuracy than this share; 0 is off
    multiple: Count = 4  # widths are multiples of it: onnxruntime is slow at others, fastest at 16
    fine_tune: int = Field(default=0, ge=0, le=LONGEST)  # epochs after pruning; zeros stay zero
    rate: Rate = 5e-4  # of fine-tuning, where it begins

    @property
    def bounded(self) -> bool:
        """Whether an accuracy or size is asked for."""
        return self.keep_accuracy > 0 or self.max_params > 0 or self.max_macs > 0

    @property
    def picking(self) -> bool:
        """Whether the threshold follows from an accuracy, a size or what may be lost."""
        return self.bounded or self.within > 0


class CompressConfig(Settings):
    """How a network that one has is made smaller; else it learns as in the training."""

    prior: str = "laplace"  # 'ardor list priors' shows them
    groups: tuple[str, ...] = ("filters",)  # what leaves together; 'ardor list groups' shows them
    strength: Rate = 1e-4  # of the prior laplace: lambda, against the nll of an image
    epochs: int = Field(default=20, ge=1, le=LONGEST)
    time: Time = 0.0  # it ends within it, e.g. "20m"; it decides the epochs; 0: no limit
    optimiser: Literal["adam", "sgd", "adamw"] = "adam"
    rate: Rate = 1e-3  # of learning; after the last cycle it falls along a cosine
    weight_decay: Amount = 0.0
    average: Share = 0.99  # momentum of the mean of weights over steps; 0: no mean
    cycles: Count = 10  # in which groups leave, between two of which what is left learns
    multiple: Count = 4  # widths are multiples of it: onnxruntime is slow at others, fastest at 16
    settle: Share = 0.5  # of the epochs, in which what is left is trained by itself, at the end
    keep_accuracy: Accuracy = 0.0  # the smallest network that is this accurate; 0 is off
    max_params: int = Field(default=0, ge=0, le=10**12)  # not zero, at most; 0 is off
    max_macs: int = Field(default=0, ge=0, le=10**15)  # multiply-adds of an image; 0 is off
    times_smaller: Times = 0.0  # so many times fewer parameters that are not zero; 0 is off
    within: Share = 0.005  # without any of these the smallest that loses no more accuracy than this
    mean: tuple[float, ...] = ()  # of a module's own normalisation, of 0 to 1; of the images if ()
    std: tuple[float, ...] = ()

    @property
    def sized(self) -> bool:
        """Whether it is said how small the network is to be."""
        return self.max_params > 0 or self.max_macs > 0 or self.times_smaller > 0


class ExportConfig(Settings):
    """The files that leave Ardor."""

    formats: tuple[str, ...] = ("onnx",)  # 'ardor list exporters' shows them


class Config(Settings):
    """Everything that decides a run."""

    seed: int = Field(default=0, ge=0, lt=2**32)
    # Of the whole run, e.g. "30m", shared out among its stages; 0: no limit; "auto": a usual one
    time: Time | Literal["auto"] = 0.0
    device: Literal["auto", "cpu", "cuda", "mps"] = "auto"
    data: DataConfig = DataConfig()
    space: dict[str, Any] = {"name": "cells"}
    method: dict[str, Any] = {"name": "vinnas"}
    search: SearchConfig = SearchConfig()
    network: dict[str, Any] = {}  # settings of the space that differ in the final network
    train: TrainConfig = TrainConfig()
    prune: PruneConfig = PruneConfig()
    compress: CompressConfig = CompressConfig()
    teacher: TeacherConfig = TeacherConfig()
    export: ExportConfig = ExportConfig()

    @property
    def limit(self) -> float:
        """Seconds that all of the run may take; 0: no limit, or none that is known yet."""
        return 0.0 if self.time == "auto" else self.time


SECTIONS: Mapping[str, type[Settings]] = {
    "data": DataConfig,
    "search": SearchConfig,
    "train": TrainConfig,
    "prune": PruneConfig,
    "compress": CompressConfig,
    "teacher": TeacherConfig,
    "export": ExportConfig,
}
