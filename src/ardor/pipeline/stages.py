"""The stages of a run: each reads what the one before it wrote; search and train can be resumed."""

import shutil
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from ardor import methods
from ardor.data import Images
from ardor.errors import ArdorError
from ardor.models import ensemble, exporters
from ardor.models.card import card
from ardor.models.model import Model
from ardor.models.scores import logits_of, scores
from ardor.models.smaller import prune as pruned
from ardor.pipeline import evaluation, teaching
from ardor.pipeline.asking import note
from ardor.pipeline.changes import CHANGEABLE
from ardor.pipeline.compress_stage import compressed, origins
from ardor.pipeline.folder import SEARCHED, STAGES, WRITTEN
from ardor.pipeline.members import members
from ardor.pipeline.prune_stage import smaller
from ardor.pipeline.resolve import completed, unnamed
from ardor.pipeline.run import Run
from ardor.reporting import draw
from ardor.reporting import report as report_page
from ardor.runtime.files import replaced_folder, write, write_json
from ardor.runtime.origin import FORMAT
from ardor.runtime.tensors import save
from ardor.searching.loop import search as search_space
from ardor.training.train import split_validation
from ardor.training.train import train as train_network

Figures = dict[str, float]
CHECKED_IMAGES = 64
# Stages that write `model`, and their loops.
SMALLER = {"prune": ("tune",), "compress": ("compress", "settle")}
# Metrics of an earlier pruning and of what came after it, by how they begin.
TEACHER = ("teacher_accuracy", "teacher_agreement")
SCORED = ("test_", "held_out_", "ensemble_", "trained_", "validation_", "untuned_", *TEACHER)
DERIVED = (*SCORED, "onnx_", "latency_")
# Stage -> metrics that it may leave out when it is done again.
DROPPED = {
    "export": ("onnx_", "latency_", "trained_onnx_", "trained_latency_"),
    "evaluate": ("ensemble_", *TEACHER),
}


def do(run: Run, stage: str) -> None:
    """Does a stage, from its newest checkpoint; it counts as done once its figures are written."""
    steps: dict[str, Callable[[Run], Figures]] = {
        "search": search,
        "train": train,
        "prune": prune,
        "compress": compress,
        "export": export,
        "evaluate": evaluate,
        "report": report,
    }
    with run.held():
        with run.record.unfinished(stage), run.record.costed(stage) as cost:
            run.share_out(stage)
            if stage in CHANGEABLE:
                run.write_config()  # while marked unfinished: an older result has other settings
            found = steps[stage](run)
        if stage in SMALLER:
            forget_after(run)
        if stage in DROPPED:
            run.record.drop(DROPPED[stage])
        run.record.add(stage, **found, stages={stage: cost})
        for loop in SMALLER.get(stage, ()):
            run.drop_checkpoints(loop)


def search(run: Run) -> Figures:
    """Finds the architecture."""
    runtime = run.runtime()
    run.config = completed(run.config)  # checked again, as config.json may have been edited
    space = run.space()
    method = methods.make(run.config.method["name"], space, unnamed(run.config.method))
    found = search_space(
        space, method, run.images.train, run.config.search, run=run.folder, runtime=runtime
    )
    save(run.folder / SEARCHED, found.weights, {})
    write(
        run.folder / "architecture.svg",
        draw(found.architecture, found.choices, found.probabilities, found.fell_with),
    )
    write_json(run.folder / "architecture.json", found.to_json())
    return {"taken_out": sum(map(len, found.removed.values())), **found.watched}


def train(run: Run) -> Figures:
    """Trains the network: new weights, or those of the search."""
    figures = teaching.told(run.dataset.train, run.on_progress)
    runtime = run.runtime()
    model = train_network(
        run.network,
        run.dataset.train,
        run.dataset.classes,
        run.config.train,
        run=run.folder,
        runtime=runtime,
        searched=run.learned(run.network),
        unlabelled=run.dataset.unlabelled,
    )
    model.cpu().save(run.folder / "trained", card=card("trained", model))
    return figures


def prune(run: Run) -> Figures:
    """Zeroes weights that are only noise, removes channels without effect, and fine-tunes."""
    small, facts = smaller(run)
    ensemble.save([small, *members(run)], run.folder / "model")
    return facts


def compress(run: Run) -> Figures:
    """Takes out groups of weights while the network learns on."""
    figures = teaching.told(run.dataset.train, run.on_progress)
    small, facts = compressed(run)
    small.save(run.folder / "model", card=card("model", small, origin=origins(run)[0]))
    return {**facts, **figures}


def export(run: Run) -> Figures:
    """Writes the network in every format of export.formats, each checked on training images."""
    model, images = run.plain(), run.images.train.pixels[:CHECKED_IMAGES]
    trained = pruned(run.trained(), float("inf")) if run.done("prune") else None
    formats = dict.fromkeys(run.config.export.formats)
    exports = [exporters.export(name, model, images) for name in formats]
    table = {one.name: {**one.to_json(), **compared(one, model, trained)} for one in exports}
    with replaced_folder(run.folder / "export") as filling:
        for name, content in (file for one in exports for file in one.files.items()):
            write(filling / name, content)
        write_json(filling / "exports.json", {"format": FORMAT, "exports": table})
    return onnx_figures(table["onnx"]) if "onnx" in table else {}


def compared(one: exporters.Export, model: Model, trained: Model | None) -> Figures:
    """Bytes of an export and its time for one image, also of the network before pruning."""
    versions = {"": one.files}
    if trained is not None:
        versions["trained_"] = one.exporter.write(trained)
    times = one.exporter.latencies(list(versions.values()), model.shape)
    return {
        **{f"{which}bytes": sum(map(len, files.values())) for which, files in versions.items()},
        **{f"{which}latency_ms": ms for which, ms in zip(versions, times, strict=bool(times))},
    }


def onnx_figures(row: dict[str, Any]) -> Figures:
    """The figures of the ONNX file, as metrics.json names them."""
    names = {
        "largest_difference": "onnx_max_difference",
        "bytes": "onnx_bytes",
        "latency_ms": "latency_ms",
        "trained_bytes": "trained_onnx_bytes",
        "trained_latency_ms": "trained_latency_ms",
    }
    return {name: row[key] for key, name in names.items() if key in row}


def evaluate(run: Run) -> Figures:
    """Scores the network on the test images, which no stage before has used.

    Without test images it is scored on those held out of the training; without those, not at all.
    """
    which, images = scored_images(run)
    logits = answers(run, run.plain(), images)
    results, count = {"": scored(logits, images)}, 1
    now, then = origins(run)
    agrees = teaching.agreement(logits, images)
    if run.done("prune"):
        place = run.folder / "model"
        first, *others = ensemble.load(place, ensemble.saved(place)).models
        count += len(others)
        if others:
            each = [logits, *(answers(run, other, images) for other in others)]
            results["ensemble_"] = scored(ensemble.together(each), images)
        results["trained_"] = scored(
            answers(run, pruned(run.trained(), float("inf")), images), images
        )
        text = card("model", first, {**results[""], **agrees}, which, together=count, origin=now)
        write(place / "README.md", text)
    before = results.get("trained_", results[""])
    text = card("trained", run.trained(), before, which, origin=then)
    write(run.folder / "trained" / "README.md", text)
    evaluation.keep(run.folder, run.images.classes, logits, images, held_out=which != "test")
    return {
        **({} if which == "test" else {"held_out_images": len(images)}),
        **({"ensemble_networks": count} if count > 1 else {}),
        **agrees,
        **{f"{of}{which}_{name}": x for of, each in results.items() for name, x in each.items()},
    }


def scored_images(run: Run) -> tuple[str, Images]:
    """The test images; if there are none, those that were held out of the training.

    A teacher that cannot be asked any more is left out: a network can be measured without.
    """
    try:
        images = run.answered
    except ArdorError as error:
        images = run.images
        run.on_progress(note(f"agreement is not measured: {error}"))
    if len(images.test):
        return "test", images.test
    config = run.config
    return "held_out", split_validation(images.train, config.train, config.seed)[1]


def answers(run: Run, model: Model, images: Images) -> Tensor:
    """The logits of a network on these images, which must be of the classes it was trained for."""
    if model.classes != run.images.classes:
        raise ArdorError(
            f"classes of '{run.config.data.source}' are {', '.join(run.images.classes)}; "
            f"the network was trained for {', '.join(model.classes)}",
            "put the images back as they were",
        )
    if not len(images):
        return torch.empty(0, len(model.classes))
    runtime = run.runtime()
    return logits_of(runtime.place(model.net), images, model.normalise.to(runtime.device), runtime)


def scored(logits: Tensor, images: Images) -> Figures:
    """Scores of these answers; none where there are no images."""
    return scores(logits, images.labels) if len(images) else {}


def report(run: Run) -> Figures:
    """One HTML page of the run."""
    write(run.folder / "report.html", report_page(run.folder, run.choices))
    return {}


def forget_after(run: Run) -> None:
    """Removes the results of later stages after the network has been made smaller anew."""
    later = STAGES[STAGES.index("prune") + 1 :]
    for each in later:
        (run.folder / WRITTEN[each]).unlink(missing_ok=True)
    shutil.rmtree(run.folder / "export", ignore_errors=True)
    run.record.drop(DERIVED)
