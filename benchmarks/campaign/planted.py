"""Planted bugs: each changes a line of a copy of the source, and its tests must fail."""

import shutil
from collections.abc import Mapping
from dataclasses import dataclass

from trial import Ardor, Case

NEVER = "not planted"
APART, SEARCH, TRAIN = "tests/test_images_apart.py", "tests/test_search.py", "tests/test_train.py"
BAYES, STEPS, ROUNDS = "tests/test_bayes.py", "tests/test_steps.py", "tests/test_rounds.py"
VINNAS, STATES, LAYERS = "tests/test_vinnas.py", "tests/test_states.py", "tests/test_layers.py"
DATA, CURVE, FLOW = "tests/test_data_augment.py", "tests/test_prune_curve.py", "tests/test_flow.py"
# What takes long and guards none of these.
SLOW = "not onnx and not resumed and not damaged and not halving_stem and not real"
BOTH = (
    'type(run.dataset.train)(*(__import__("torch").cat([getattr(half, name) for half in '
    '(run.dataset.train, run.dataset.test)]) for name in ("pixels", "labels")))'
)
FLIPPED = '__import__("ardor.data", fromlist=["augment"]).augment({}, ("flip",))'


@dataclass(frozen=True)
class Plant:
    """A bug: what stands in a file -> what is put there instead; and the tests that guard it."""

    file: str
    changes: Mapping[str, str]
    guards: tuple[str, ...]

    def __call__(self, ardor: Ardor) -> str | None:
        copy_tree(ardor)
        path = ardor.folder / "src" / "ardor" / self.file
        text = path.read_text()
        for old, new in self.changes.items():
            if text.count(old) != 1:
                return f"{NEVER}: {self.file} has {text.count(old)} times {old!r}"
            text = text.replace(old, new)
        compile(text, self.file, "exec")
        path.write_text(text)
        return caught(ardor, self.guards)


def copy_tree(ardor: Ardor) -> None:
    """Source and tests, as they are in the tree under trial."""
    tree, leave = ardor.source.parent, shutil.ignore_patterns("__pycache__")
    for name in ("src", "tests"):
        shutil.copytree(tree / name, ardor.folder / name, ignore=leave)
    for name in ("pyproject.toml", "README.md"):
        shutil.copy(tree / name, ardor.folder)


def caught(ardor: Ardor, guards: tuple[str, ...]) -> str | None:
    """None where a test fails, and not only because something cannot be run at all."""
    files = [name for name in guards if (ardor.folder / name).exists()]
    options = ("-q", "-x", "-p", "no:cacheprovider", "-n", "0", "--tb=short", "-k", SLOW)
    env = {"PYTHONPATH": str(ardor.folder / "src")}
    answer = ardor.python("-m", "pytest", *options, *files, env=env, seconds=300)
    failed = [line for line in answer.out.splitlines() if line.startswith("FAILED ")]
    if answer.code == 0:
        return "not caught"
    if answer.code != 1 or not failed:
        return f"pytest ended with {answer.code}: {answer.out[-150:]}"
    told = [line for line in answer.out.splitlines() if line.startswith("E ")]
    by_assertion = any("assert" in line or "DID NOT RAISE" in line for line in [*told, *failed])
    return None if by_assertion else f"failed, but by no assertion: {failed[0]}"


def images() -> dict[str, Plant]:
    """Images that reach what they must not."""
    train = "run.dataset.train"
    return {
        "the search sees the test images in place of the training images": Plant(
            "stages.py",
            {f"{train}, run.config.search": "run.dataset.test, run.config.search"},
            (APART, SEARCH),
        ),
        "the search sees the test images beside the training images": Plant(
            "stages.py",
            {f"{train}, run.config.search": f"{BOTH}, run.config.search"},
            (APART, SEARCH),
        ),
        "the network is trained on the test images": Plant(
            "stages.py",
            {f"run.network,\n        {train},": "run.network,\n        run.dataset.test,"},
            (APART, TRAIN),
        ),
        "the network is trained on the test images as well": Plant(
            "stages.py",
            {f"run.network,\n        {train},": f"run.network,\n        {BOTH},"},
            (APART, TRAIN),
        ),
        "the test figures are of training images": Plant(
            "stages.py", {"images = run.dataset.test": f"images = {train}"}, (APART, TRAIN)
        ),
        "the pruning curve is of test images": Plant(
            "pruning.py",
            {f"parts_of({train}": "parts_of(run.dataset.test"},
            (APART, CURVE),
        ),
        "the pruning curve is of training images": Plant(
            "pruning.py",
            {'(to_watch, "validation") if': '(to_learn, "validation") if'},
            (APART, CURVE),
        ),
        "fine-tuning learns from test images": Plant(
            "pruning.py", {f"images = {train}": "images = run.dataset.test"}, (APART, CURVE)
        ),
        "fine-tuning is measured on what it learned from": Plant(
            "pruning.py",
            {"parts_of(images, config, runtime.seed)[1]": "parts_of(images, config, 0)[0]"},
            (APART, CURVE),
        ),
        "images held out for the test are trained on too": Plant(
            "data/sources.py",
            {"train, heldout = train[kept], train[held]": "heldout = train[held]"},
            (APART, DATA),
        ),
        "the test images are the same for every seed": Plant(
            "data/sources.py", {"[1 - test, test], seed=seed": "[1 - test, test], seed=0"}, (DATA,)
        ),
        "parts of a split overlap": Plant(
            "data/split.py",
            {"torch.split(shuffled, [*counts, rest])[:-1]": "[shuffled[:n] for n in counts]"},
            (DATA,),
        ),
        "a split is the same for every seed": Plant(
            "data/split.py", {"manual_seed(seed)": "manual_seed(0)"}, (DATA,)
        ),
        "every search holds out the same images": Plant(
            "search.py", {"shares, seed=seed": "shares, seed=0"}, (APART, SEARCH)
        ),
        "every training watches by the same images": Plant(
            "train.py", {"shares, seed=seed": "shares, seed=0"}, (APART, TRAIN)
        ),
        "the training watches by images that it learns from": Plant(
            "train.py",
            {"self.images, self.validation = parts": "self.images = self.validation = parts[0]"},
            (APART, TRAIN),
        ),
        "the training learns from the images that it watches by": Plant(
            "train.py",
            {
                "return [images[part] for part in stratified(images.labels, shares, seed=seed)]": (
                    "return [images, images[stratified(images.labels, shares, seed=seed)[1]]]"
                )
            },
            (APART, TRAIN),
        ),
    }


def halves() -> dict[str, Plant]:
    """The two halves of a search, mixed up."""
    return {
        "gates learn on the training half": Plant(
            "search.py", {"loss = self.loss(held_out)": "loss = self.loss(train)"}, (APART, SEARCH)
        ),
        "gates look ahead on the training half": Plant(
            "search.py",
            {"lambda: self.loss(held_out)": "lambda: self.loss(train)"},
            (APART, SEARCH, STEPS),
        ),
        "weights learn on the held-out half": Plant(
            "search.py", {"loss = self.loss(train)": "loss = self.loss(held_out)"}, (APART, SEARCH)
        ),
        "weights learn before gates": Plant(
            "search.py",
            {
                "            self.gate_step(train, held_out)\n": "            pass\n",
                "        if joint:\n            self.step_gates()\n": (
                    "        if joint:\n            self.step_gates()\n"
                    "        elif self.learning_gates:\n"
                    "            self.gate_step(train, held_out)\n"
                ),
            },
            (APART, SEARCH),
        ),
        "gates learn while weights warm up": Plant(
            "search.py", {"self.stage.round_begun >= self.config.warmup": "True"}, (SEARCH,)
        ),
        "nothing is held out of a search": Plant(
            "search.py",
            {"return images[train], images[held_out]": "return images, images[held_out]"},
            (APART, SEARCH),
        ),
        "candidates are ranked on training images": Plant(
            "search.py",
            {"self.net, self.held_out, self.normalise": "self.net, self.train, self.normalise"},
            (APART, SEARCH),
        ),
        "candidates alone are ranked on training images": Plant(
            "search.py",
            {
                "        ranked = self.looks.rank": (
                    "        self.looks.images = self.train\n        ranked = self.looks.rank"
                )
            },
            (APART, SEARCH),
        ),
        "the worst candidate is taken": Plant(
            "search.py", {"ranked[0].architecture": "ranked[-1].architecture"}, (APART, SEARCH)
        ),
        "equal candidates are ranked by the larger nll": Plant(
            "looks.py", {"(-c.accuracy, c.nll)": "(-c.accuracy, -c.nll)"}, (SEARCH,)
        ),
        "the collapse watch looks at training images": Plant(
            "search.py", {"watched(self.held_out": "watched(self.train"}, (APART, SEARCH)
        ),
        "curvature is of images that gates do not learn from": Plant(
            "search.py",
            {"self.held_out if self.method.bilevel else self.train": "self.train"},
            (APART, SEARCH),
        ),
        "the best epoch is that of the best training": Plant(
            "search.py",
            {'1 - held_out["accuracy"]': '1 - self.stage.means()["train"]["accuracy"]'},
            (APART, SEARCH),
        ),
        "the last of equally good epochs is kept": Plant(
            "watch.py", {"error < facts.get": "error <= facts.get"}, (APART, SEARCH)
        ),
        "the best epoch is not drawn from": Plant(
            "watch.py", {"return self.kept if kept else": "return"}, (SEARCH,)
        ),
        "a search sees its first batch only": Plant(
            "search.py",
            {"torch.arange(step * self.size, (step + 1) * self.size)": ("torch.arange(self.size)")},
            (APART, SEARCH),
        ),
        "every epoch of a search has the same order": Plant(
            "search.py",
            {"shuffled(len(half), epoch, i)": "shuffled(len(half), 0, i)"},
            (APART, SEARCH),
        ),
        "every epoch of a training has the same order": Plant(
            "train.py",
            {"shuffled(len(self.images), epoch)": "shuffled(len(self.images), 0)"},
            (APART, TRAIN),
        ),
    }


def seeing() -> dict[str, Plant]:
    """Images that are prepared or measured as they must not be."""
    prepared = "augment(self.normalise(pixels), self.config.augment)"
    return {
        "a search normalises by held-out images": Plant(
            "search.py",
            {"Normalise.of(self.train)": "Normalise.of(self.held_out)"},
            (APART, SEARCH),
        ),
        "a training normalises by the images it watches by": Plant(
            "train.py",
            {"Normalise.of(self.images)": "Normalise.of(self.validation)"},
            (APART, TRAIN),
        ),
        "images that are measured are augmented": Plant(
            "measure.py",
            {
                "normalise(runtime.images(pixels))": FLIPPED.format(
                    "normalise(runtime.images(pixels))"
                )
            },
            (APART, SEARCH),
        ),
        "images of a search are not augmented": Plant(
            "search.py", {prepared: "self.normalise(pixels)"}, (APART, SEARCH)
        ),
        "images of a training are not augmented": Plant(
            "train.py", {prepared: "self.normalise(pixels)"}, (APART, TRAIN)
        ),
        "a net is measured by the statistics of its batch": Plant(
            "measure.py", {"    net.eval()\n": "    net.train()\n"}, (APART, SEARCH)
        ),
        "a net does not learn on after it was measured": Plant(
            "measure.py", {"    net.train(was_training)\n": ""}, (APART, TRAIN)
        ),
        "predictions hang on their batch": Plant(
            "model.py", {"        self.eval()\n": "        self.train()\n"}, (TRAIN,)
        ),
        "paths are dropped in evaluation": Plant(
            "states.py", {"self.training and self.rate > 0": "self.rate > 0"}, (STATES,)
        ),
        "weights are drawn in evaluation": Plant(
            "layers.py",
            {"layer.training and not layer.certain": "not layer.certain"},
            (LAYERS,),
        ),
        "labels are smoothed in evaluation": Plant(
            "measure.py",
            {
                "F.cross_entropy(logits, labels)": (
                    "F.cross_entropy(logits, labels, label_smoothing=0.1)"
                )
            },
            (TRAIN,),
        ),
    }


def objectives() -> dict[str, Plant]:
    """What is descended, and how."""
    cosine = "self.config.gate_rate * schedule(self.stage.round_progress)"
    return {
        "the KL does not reach the log-variances": Plant(
            "spaces/__init__.py",
            {"layer.log_var.flatten()": "layer.log_var.detach().flatten()"},
            (STEPS, TRAIN, LAYERS, BAYES),
        ),
        "the KL does not reach the means": Plant(
            "spaces/__init__.py",
            {"layer.weight.flatten()": "layer.weight.detach().flatten()"},
            (STEPS, TRAIN, LAYERS, BAYES),
        ),
        "the KL is of the first layer only": Plant(
            "spaces/__init__.py",
            {
                "            torch.cat([layer.weight.flatten() for layer in layers]),\n            torch.cat([layer.log_var.flatten() for layer in layers]),\n": "            layers[0].weight,\n            layers[0].log_var,\n"
            },
            (STEPS, TRAIN, LAYERS, BAYES),
        ),
        "the KL of a training is divided by the batch": Plant(
            "train.py",
            {"to(self.runtime.device), len(self.images))": "to(self.runtime.device), self.size)"},
            (TRAIN, STEPS),
        ),
        "the KL of a search is divided by the batch": Plant(
            "search.py",
            {"to(self.runtime.device), len(images))": "to(self.runtime.device), self.size)"},
            (SEARCH, STEPS, VINNAS),
        ),
        "the KL is divided twice": Plant(
            "steps.py", {"/ of for name, term": "/ of / of for name, term"}, (STEPS,)
        ),
        "the KL of a training never starts": Plant(
            "train.py", {"ramp(self.stage.progress, start": "ramp(0.0, start"}, (TRAIN,)
        ),
        "the KL of a training counts from the first step": Plant(
            "train.py",
            {
                "self.config.kl * ramp(self.stage.progress, start=self.config.kl_start)": "self.config.kl"
            },
            (TRAIN,),
        ),
        "the terms of a search never start": Plant(
            "methods/vinnas.py", {"ramp(progress, start": "ramp(0.0, start"}, (VINNAS,)
        ),
        "the entropy is driven up": Plant(
            "methods/vinnas.py", {"total(entropy(gate)": "-total(entropy(gate)"}, (VINNAS,)
        ),
        "labels are not smoothed": Plant(
            "steps.py",
            {
                "F.cross_entropy(main, labels, label_smoothing=smoothing)": "F.cross_entropy(main, labels)"
            },
            (STEPS, SEARCH, TRAIN),
        ),
        "the rate of a search does not fall": Plant(
            "search.py",
            {"set_rate_(self.optimiser, self.rate)": "set_rate_(self.optimiser, self.config.rate)"},
            (SEARCH, STEPS),
        ),
        "the rate of the gates does not fall": Plant(
            "search.py", {cosine: "self.config.gate_rate"}, (SEARCH, STEPS)
        ),
        "the rate of a training does not fall": Plant(
            "train.py",
            {
                "set_rate_(self.optimiser, rate_at(self.config, self.stage.progress))": (
                    "set_rate_(self.optimiser, self.config.rate)"
                )
            },
            (TRAIN,),
        ),
        "gradients of a search are not clipped": Plant(
            "search.py",
            {"nn.utils.clip_grad_norm_(self.weights, self.config.clip)": "pass"},
            (SEARCH, STEPS),
        ),
        "gradients of a training are not clipped": Plant(
            "train.py",
            {"nn.utils.clip_grad_norm_(self.weights, self.config.clip)": "pass"},
            (TRAIN,),
        ),
        "no path is ever dropped": Plant(
            "train.py",
            {"self.config.drop_path * epoch / self.config.epochs": "0.0"},
            (TRAIN, STATES),
        ),
        "the auxiliary head counts in full": Plant(
            "steps.py", {"auxiliary_weight * nll": "nll"}, (STEPS, TRAIN)
        ),
        "weights that were pruned learn again": Plant(
            "train.py", {"torch.where(stays, weight.grad, 0.0)": "weight.grad"}, (CURVE,)
        ),
        "gates are a softmax over copies": Plant(
            "methods/darts.py", {"torch.softmax, dim=-1": "torch.softmax, dim=0"}, (SEARCH,)
        ),
        "rounds are pooled without the variance between them": Plant(
            "bayes.py", {"log_vars.exp().mean(0) + between": "log_vars.exp().mean(0)"}, (ROUNDS,)
        ),
        "rounds are pooled by the mean of log-variances": Plant(
            "methods/vinnas.py", {"self.log_var[name].copy_(pooled)": "pass"}, (ROUNDS,)
        ),
        "the last round is left out": Plant(
            "rounds.py", {"[*ended, method] if learning else ended": "ended"}, (ROUNDS,)
        ),
    }


def cases() -> dict[str, Case]:
    """Every bug by its name."""
    return {**images(), **halves(), **seeing(), **objectives()}
