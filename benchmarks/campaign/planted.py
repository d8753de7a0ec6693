"""Planted bugs: each changes a line of a copy of the source, and a test must fail of it."""

import os
import shutil
import sys
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path

import pytest
from trial import Ardor, Case

SECONDS = 300.0  # after which tests count as such that never end

# What takes long and guards none of these.
SLOW = ("onnx", "resumed", "damaged", "halving_stem", "number_of_parameters", "bits")
# Each: its name and the file of Ardor that it is in; "?" the tests that guard it, `FOLDER/FILE` or
# `FOLDER/FILE:WORD` for those with that word in their names; "-" what stands there, and "+" what is
# put there.
PLANTS = r"""
the search sees the test images | pipeline/stages.py
? pipeline/images_apart:decide pipeline/prune_stage:looks
- run.images.train, run.config.search
+ run.images.test, run.config.search
the search sees the test images as well | pipeline/stages.py
? pipeline/images_apart:decide pipeline/prune_stage:looks
- run.images.train, run.config.search
+ type(run.dataset.train)(*(
+ __import__("torch").cat([getattr(half, name) for half in (run.dataset.train, run.dataset.test)])
+ for name in ("pixels", "labels"))), run.config.search
the network is trained on test images | pipeline/stages.py
? pipeline/images_apart:decide pipeline/prune_stage:looks
- run.network,
-         run.dataset.train,
+ run.network,
+         run.dataset.test,
the network is trained on test images as well | pipeline/stages.py
? pipeline/images_apart:decide pipeline/prune_stage:looks
- run.network,
-         run.dataset.train,
+ run.network,
+         type(run.dataset.train)(*(
+ __import__("torch").cat([getattr(half, name) for half in (run.dataset.train, run.dataset.test)])
+ for name in ("pixels", "labels"))),
the test figures are of training images | pipeline/stages.py
? pipeline/images_apart:test_figures pipeline/prune_stage:looks
- return "test", images.test
+ return "test", images.train
the pruning curve is of test images | pipeline/prune_stage.py
? pipeline/prune_stage:looks
- split_validation(run.images.train
+ split_validation(run.images.test
the pruning curve is of training images | pipeline/prune_stage.py
? pipeline/prune_stage:looks
- (to_watch, "validation") if
+ (to_learn, "validation") if
fine-tuning learns from test images | pipeline/prune_stage.py
? pipeline/images_apart:decide pipeline/prune_stage:looks
- images = run.dataset.train
+ images = run.dataset.test
fine-tuning is measured on what it learns | pipeline/prune_stage.py
? pipeline/images_apart:fine_tuning pipeline/prune_stage:looks
- split_validation(images, config, runtime.seed)[1]
+ split_validation(images, config, 0)[0]
images held out to test are trained on too | data/sources.py
? pipeline/images_apart:no_other data/augment
- train, heldout = train[kept], train[held]
+ heldout = train[held]
the test images are the same for every seed | data/sources.py
? data/augment
- [1 - test, test], seed=seed
+ [1 - test, test], seed=0
parts of a split overlap | data/split.py
? data/augment
- torch.split(shuffled, [*counts, unused])[:-1]
+ [shuffled[:n] for n in counts]
a split is the same for every seed | data/split.py
? data/augment
- manual_seed(seed)
+ manual_seed(0)
every search holds out the same images | searching/loop.py
? pipeline/images_apart:other_images searching/loop:gates
- shares, seed=seed
+ shares, seed=0
every training watches by the same images | training/train.py
? pipeline/images_apart:other_images training/train:learns
- shares, seed=seed
+ shares, seed=0
the training watches by what it learns from | training/train.py
? pipeline/images_apart:learns_from_all training/train:learns
- self.images, self.validation = parts
+ self.images = self.validation = parts[0]
the training learns from what it watches by | training/train.py
? pipeline/images_apart:learns_from_all training/train:learns
- return [learn if unlabelled is None else joined([learn, unlabelled]), watch]
+ return [images, watch]
gates learn on the training half | searching/learner.py
? pipeline/images_apart:gates_learn_first searching/loop:gates
- loss = self.loss(held_out, progress)
+ loss = self.loss(train, progress)
gates look ahead by the training half | searching/learner.py
? pipeline/images_apart:gates_learn_first training/objective
- lambda: self.loss(held_out, progress)
+ lambda: self.loss(train, progress)
weights learn on the held-out half | searching/loop.py
? pipeline/images_apart:gates_learn_first searching/loop:gates
- self.learner.step(train, progress
+ self.learner.step(held_out, progress
weights learn before gates | searching/loop.py
? pipeline/images_apart:gates_learn_first searching/loop:gates
-         if self.learning_gates and not joint:
-             self.stage.add("gates", self.learner.gate_step(train, held_out, progress).terms)
-         joint = joint and self.learning_gates and bool(self.learner.gates)
-         loss = self.learner.step(train, progress, joint=joint)
-         self.stage.add("train", loss.terms)
+         both = joint and self.learning_gates and bool(self.learner.gates)
+         loss = self.learner.step(train, progress, joint=both)
+         self.stage.add("train", loss.terms)
+         if self.learning_gates and not joint:
+             self.stage.add("gates", self.learner.gate_step(train, held_out, progress).terms)
gates learn while weights warm up | searching/loop.py
? searching/loop:warm_up
- self.stage.round_begun >= self.config.warmup
+ True
nothing is held out of a search | searching/loop.py
? pipeline/images_apart:ranked searching/loop:ranked
- return images[train], images[held_out]
+ return images, images[held_out]
candidates are ranked on training images | searching/loop.py
? pipeline/images_apart:ranked searching/loop:ranked
- self.net,
-             self.held_out,
-             self.normalise,
+ self.net,
+             self.train,
+             self.normalise,
candidates alone are ranked on training images | searching/outcome.py
? pipeline/images_apart:ranked searching/loop:ranked
-     ranked = ranking.best
+     loop.validation.images = loop.train
+     ranked = ranking.best
the worst candidate is taken | searching/outcome.py
? pipeline/images_apart:ranked searching/loop:ranked
- ranked[0].architecture
+ ranked[-1].architecture
equal candidates are ranked by the larger nll | searching/ranking.py
? searching/loop:ranked
- (-c.accuracy, c.nll)
+ (-c.accuracy, -c.nll)
the collapse watch looks at training images | searching/loop.py
? pipeline/images_apart:ranked searching/loop:ranked
- monitored_batch(
-             self.held_out,
+ monitored_batch(
+             self.train,
curvature is of images that gates do not learn from | searching/loop.py
? pipeline/images_apart:curvature training/objective
- self.held_out if self.method.bilevel else self.train
+ self.train
the best epoch is that of the best training | searching/loop.py
? pipeline/images_apart:best_epoch searching/loop:gates
- 1 - held_out["accuracy"]
+ 1 - self.stage.means()["train"]["accuracy"]
the last of equally good epochs is kept | searching/selection.py
? pipeline/images_apart:best_epoch searching/loop:gates
- error < self.facts.get
+ error <= self.facts.get
the best epoch is not drawn from | searching/selection.py
? searching/loop:kept
- return self.kept if self.keeps_another else
+ return
a search sees its first batch only | searching/loop.py
? pipeline/images_apart:epoch_goes_once searching/loop:gates
- torch.arange(step * self.size, (step + 1) * self.size)
+ torch.arange(self.size)
every epoch of a search has the same order | searching/loop.py
? pipeline/images_apart:epoch_goes_once searching/loop:gates
- shuffled(len(half), epoch, i)
+ shuffled(len(half), 0, i)
every epoch of a training has the same order | training/train.py
? pipeline/images_apart:learns_from_all training/train:learns
- shuffled(len(self.images), epoch)
+ shuffled(len(self.images), 0)
a search normalises by held-out images | searching/loop.py
? pipeline/images_apart:normalised_by searching/loop:gates
- Normalise.of(self.train)
+ Normalise.of(self.held_out)
a training normalises by what it watches by | training/train.py
? pipeline/images_apart:normalised_by training/train:learns
- normalise_of(self.images
+ normalise_of(self.validation
images that are measured are augmented | models/scores.py
? pipeline/images_apart:are_changed searching/loop:gates
- normalise(runtime.images(pixels))
+ __import__("ardor.data").data.augment(normalise(runtime.images(pixels)), ("erase",))
images of a search are not augmented | searching/loop.py
? pipeline/images_apart:are_changed searching/loop:gates
- augment(pixels, mirror.decided(self.config.augment, mirrored=False))
+ pixels
images of a training are not augmented | training/train.py
? pipeline/images_apart:are_changed training/train:learns
- augment(self.normalise(pixels), self.augmentations)
+ self.normalise(pixels)
a net is measured by the statistics of its batch | models/scores.py
? pipeline/images_apart:as_it_is searching/loop:gates
-     net.eval()
+     net.train()
a net does not learn on after it was measured | models/scores.py
? pipeline/images_apart:as_it_is training/train:learns
-         net.train()
+         net.eval()
predictions hang on their batch | models/model.py
? training/train:hang training/train:same_model
-         self.eval()
+         self.train()
paths are dropped in evaluation | layers/mixed.py
? layers/mixed
- self.training and self.rate > 0
+ self.rate > 0
weights are drawn in evaluation | layers/variational.py
? layers/variational:certain
- layer.training and layer.samples_weights
+ layer.samples_weights
labels are smoothed in evaluation | models/scores.py
? training/train:scores
- F.cross_entropy(logits, labels)
+ F.cross_entropy(logits, labels, label_smoothing=0.1)
the KL does not reach the log-variances | spaces/_base.py
? training/objective:kl training/train:kl bayes/divergences:kl
- layer.log_var.flatten()
+ layer.log_var.detach().flatten()
the KL does not reach the means | spaces/_base.py
? training/objective:kl training/train:kl bayes/divergences:kl
- layer.weight.flatten()
+ layer.weight.detach().flatten()
the KL is of the first layer only | spaces/_base.py
? training/objective:kl training/train:kl bayes/divergences:kl
-             torch.cat([layer.weight.flatten() for layer in layers]),
-             torch.cat([layer.log_var.flatten() for layer in layers]),
+             layers[0].weight,
+             layers[0].log_var,
the KL of a training is divided by the batch | training/train.py
? training/train:kl training/objective:penalties
- Batch(prepared, labels, len(self.images), temperature)
+ Batch(prepared, labels, self.size, temperature)
the KL of a search is divided by the batch | searching/loop.py
? searching/loop:kl training/objective:penalties methods/vinnas:terms
- to(self.runtime.device), len(images))
+ to(self.runtime.device), self.size)
the KL is divided twice | training/objective.py
? training/objective:penalties
- / dataset_size for name, term
+ / dataset_size / dataset_size for name, term
the KL of a training never starts | training/train.py
? training/train:kl training/train:as_long
- ramp(self.stage.progress, start
+ ramp(0.0, start
the KL of a training counts from the first step | training/train.py
? training/train:kl training/train:as_long
- self.config.kl * ramp(self.stage.progress, start=self.config.kl_start)
+ self.config.kl
the terms of a search never start | methods/vinnas.py
? methods/vinnas
- ramp(progress, start
+ ramp(0.0, start
the entropy is driven up | methods/vinnas.py
? methods/vinnas
- total(entropy(gate)
+ -total(entropy(gate)
labels are not smoothed | training/objective.py
? training/objective:smooths searching/loop:gates training/train:learns
- F.cross_entropy(logits, labels, label_smoothing=smoothing)
+ F.cross_entropy(logits, labels)
the rate of a search does not fall | searching/learner.py
? searching/loop:as_long searching/loop:rates
- set_rate_(self.optimiser, rate_at(self.config, progress))
+ set_rate_(self.optimiser, self.config.rate)
the rate of the gates does not fall | searching/learner.py
? searching/loop:as_long searching/loop:rates
- self.config.gate_rate * share
+ self.config.gate_rate
the rate of a training does not fall | training/train.py
? training/train:kl training/train:as_long
- set_rate_(self.optimiser, rate_at(self.config, self.stage.progress))
+ set_rate_(self.optimiser, self.config.rate)
gradients of a search are not clipped | searching/learner.py
? searching/loop:as_long searching/loop:rates
- nn.utils.clip_grad_norm_(self.weights, self.config.clip)
+ pass
gradients of a training are not clipped | training/train.py
? training/train:kl training/train:as_long
- nn.utils.clip_grad_norm_(self.weights, self.config.clip)
+ pass
no path is ever dropped | training/train.py
? training/train:as_long layers/mixed:drop
- self.config.drop_path * progress
+ 0.0
the auxiliary head counts in full | training/objective.py
? training/objective:auxiliary training/train:learns
- auxiliary_weight * torch.stack
+ torch.stack
weights that were pruned learn again | training/train.py
? pipeline/prune_stage:zeros
- torch.where(unpruned, weight.grad, 0.0)
+ weight.grad
gates are a softmax over copies | methods/darts.py
? searching/loop:gates
- return self.softmax()
+ return self.gates(lambda logits: logits.softmax(0))
rounds are pooled without the variance between them | bayes/draws.py
? searching/selection:disagree searching/selection:mixture
- log_vars.exp().mean(0) + between
+ log_vars.exp().mean(0)
rounds are pooled by the mean of log-variances | methods/vinnas.py
? searching/selection:disagree searching/selection:mixture
- self.log_var[name].copy_(pooled)
+ pass
the last round is left out | searching/selection.py
? searching/selection:drawn_from
- [*ended, method] if learning else ended
+ ended
"""


@dataclass
class Plant:
    """A bug, and the tests that guard it."""

    file: str
    # Files of tests, and words in the names of those that are run.
    guards: list[tuple[str, str]] = field(default_factory=list)
    changes: list[tuple[list[str], list[str]]] = field(default_factory=list)  # old and new lines

    def __call__(self, ardor: Ardor) -> str | None:
        """What went wrong where the bug cannot be planted, or is not caught."""
        tree, leave = ardor.source.parent, shutil.ignore_patterns("__pycache__")
        for name in ("src", "tests"):
            shutil.copytree(tree / name, ardor.folder / name, ignore=leave)
        shutil.copy(tree / "pyproject.toml", ardor.folder)
        return self.plant(ardor.folder / "src" / "ardor" / self.file) or self.caught(ardor.folder)

    def plant(self, path: Path) -> str | None:
        """Puts the bug into the source; says so where what it replaces is not just once there."""
        text = path.read_text()
        for old, new in (map("\n".join, change) for change in self.changes):
            if text.count(old) != 1:
                return f"cannot be planted: {old!r} is {text.count(old)} times in {self.file}"
            text = text.replace(old, new)
        path.write_text(text)
        return None

    def caught(self, folder: Path) -> str | None:
        """None where a test fails by what it asserts, and not because nothing can be run."""
        wanted = " or ".join(word for _, word in self.guards)
        words = f"({wanted}) and not ({' or '.join(SLOW)})"
        files = dict.fromkeys(file for file, _ in self.guards)
        code, lines = tested(folder, ["-k", words, *files])
        if code in (0, pytest.ExitCode.NO_TESTS_COLLECTED):
            return "not caught"
        told = [line for line in lines if line.startswith("E ")]
        if code == pytest.ExitCode.TESTS_FAILED and any(" assert " in line for line in told):
            return None
        return f"no assertion failed: {(told or lines or ['it never ended'])[-1]}"


def tested(folder: Path, words: list[str]) -> tuple[int | None, list[str]]:
    """How pytest ends in a folder, None where it does not, and what it prints.

    In a process that is forked off, as importing torch takes longer than most tests.
    """
    import torch._dynamo  # noqa: F401, which torch imports when it first optimises

    process = get_context("fork").Process(target=run_tests, args=(folder, words))
    process.start()
    process.join(SECONDS)
    if process.is_alive():
        process.kill()
        process.join()
        return None, []
    return process.exitcode, (folder / "out").read_text().splitlines()


def run_tests(folder: Path, words: list[str]) -> None:
    """Ends this process with pytest's exit code."""
    os.environ |= {"PYTHONPATH": str(folder / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
    sys.path.insert(0, str(folder / "src"))
    os.chdir(folder)
    out = os.open("out", os.O_WRONLY | os.O_CREAT)
    os.dup2(out, 1)
    os.dup2(out, 2)
    options = ["-q", "-x", "-p", "no:cacheprovider", "-n", "0", "--tb=short"]
    os._exit(pytest.main([*options, *words]))


def cases() -> dict[str, Case]:
    """Every bug by its name."""
    found: dict[str, Plant] = {}
    for line in PLANTS.strip().splitlines():
        sign, rest = line[:1], line[2:]
        if sign not in "?-+":
            name, file = line.split(" | ")
            plant = found[name] = Plant(file)
        elif sign == "?":
            plant.guards = [guard(word) for word in rest.split()]
        elif sign == "-":
            if not plant.changes or plant.changes[-1][1]:
                plant.changes.append(([], []))
            plant.changes[-1][0].append(rest)
        else:
            plant.changes[-1][1].append(rest)
    return dict(found)


def guard(text: str) -> tuple[str, str]:
    """A file of tests, and a word in the names of those that count: by default all of them."""
    path, _, word = text.partition(":")
    folder, _, name = path.rpartition("/")
    return f"tests/{folder}/test_{name}.py", word or f"test_{name}"
