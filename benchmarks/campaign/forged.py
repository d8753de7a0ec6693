"""Files of tensors with a right checksum of wrong content: anyone can compute a checksum."""

from collections.abc import Iterator

from forks import nothing, trying
from inputs import DEEP, DIGITS, VALUES, words_of
from trial import Case


def cases() -> dict[str, Case]:
    """All of them."""
    return dict(one for family in (contents, checkpoints, weights) for one in family())


def contents() -> Iterator[tuple[str, Case]]:
    """Safetensors with a right checksum of wrong content."""
    strides = {
        "no object": "3",
        "null": "null",
        "a list": "[]",
        "of a name that is not there": '{"nothing": [1]}',
        "text": '{"NAME": "x"}',
        "a number": '{"NAME": 1}',
        "null for a tensor": '{"NAME": null}',
        "negative": '{"NAME": [-1, -1, -1, -1]}',
        "zero": '{"NAME": [0, 0, 0, 0]}',
        "of another rank": '{"NAME": [1, 1]}',
        "huge": '{"NAME": [1000000000000, 1, 1, 1]}',
        "of 400 digits": f'{{"NAME": [{DIGITS}, 1, 1, 1]}}',
        "overlapping": '{"NAME": [1, 1, 1, 1]}',
        "fractions": '{"NAME": [1.5, 1, 1, 1]}',
        "flags": '{"NAME": [true, true, true, true]}',
        "with gaps of 4 GB": '{"NAME": [1000000000, 9, 3, 1]}',
    }
    texts = {
        f"strides {words}": f'{{"facts": {{}}, "strides": {s}}}' for words, s in strides.items()
    }
    texts |= {
        "no strides": '{"facts": {}}',
        "no JSON": "{",
        "nothing": "",
        "a list": "[]",
        "null": "null",
        "deep lists": DEEP,
        "facts that are no object": '{"facts": 3, "strides": {}}',
        "no facts": '{"strides": {}}',
        "400 digits": DIGITS,
    }
    for words, content in texts.items():
        code = f"forge('whole/model/model.safetensors', {content!r})"
        case = trying(nothing, *words_of("predict", "whole/"), code=code)
        if "facts" not in words:  # a model has none
            case = trying(nothing, *words_of("predict", "whole/"), code=code, must="refused")
        yield f"weights whose content is {words}", case


REMEMBERED = (
    "position position.0 position.1 sums seconds course course.spent course.schedule random "
    "random.numpy random.numpy.0 random.numpy.1 random.numpy.2 random.numpy.3 random.python "
    "random.python.0 random.python.1 facts facts.watch facts.watch.since facts.watch.collapsed "
    "facts.watch.curvatures facts.watch.growing facts.watch.direction facts.least_error "
    "facts.kept_epoch facts.ended facts.gone facts.given_up facts.gone.reduce/0>2"
)


def checkpoints() -> Iterator[tuple[str, Case]]:
    """Checkpoints that remember what no search has seen."""
    values = ("null", "-1", "1e400", "400 digits", "NaN", "text", "a list", "an object", "a flag")
    for turn, entry in enumerate(REMEMBERED.split()):
        for value in values[turn % 3 :: 3]:
            code = f"misremember('begun/checkpoint', {entry!r}, {VALUES[value]!r})"
            case = trying(nothing, "resume", "begun", code=code)
            yield f"a checkpoint whose {entry} is {value}", case
    for words, change in {
        "the state of an optimiser in another shape": "t['weights/0/exp_avg'] = torch.zeros(7)",
        "half the state of an optimiser": "del t['weights/0/exp_avg_sq']",
        "steps of an optimiser that are -1": "t['weights/0/step'] -= 99",
        "random numbers of another kind": "t['random/torch'] = torch.zeros(3)",
        "no random numbers": "del t['random/numpy']",
        "too few random numbers": "t['random/numpy'] = t['random/numpy'][:5]",
        "text for a number of an optimiser": "t['weights/x/step'] = torch.zeros(3)",
        "a network of other sizes": "t['net/stem.0.weight'] = torch.zeros(3)",
        "no network": "[t.pop(n) for n in list(t) if n.startswith('net/')]",
        "more rounds than there are": "t['rounds/ended'] += 9",
    }.items():
        code = f"rewrite('begun/checkpoint', {change!r})"
        yield f"a checkpoint with {words}", trying(nothing, "resume", "begun", code=code)


def weights() -> Iterator[tuple[str, Case]]:
    """Weights by which no image has a probability, and large ones that are sound."""
    changes = {
        "NaN": "t[n].view(-1)[0] = float('nan')",
        "infinite": "t[n].view(-1)[0] = float('inf')",
        "of other kinds": "t[n] = t[n].to(torch.complex64)",
    }
    names = {
        "classify.weight": "the classifier",
        "stem.0.weight": "the stem",
        "running_mean": "a mean",
        "running_var": "a variance",
        "normalise.mean": "the normalisation",
    }
    for value, change in changes.items():
        for end, words in names.items():
            code = f"change('whole/model', {end!r}, {change!r})"
            case = trying(nothing, *words_of("predict", "whole/"), code=code, must="refused")
            yield f"weights of {words} that are {value}", case
    for words, end, change in (
        ("variances below 0", "running_var", "t[n] -= 1000"),
        ("a deviation of 0", "normalise.std", "t[n] *= 0"),
        ("a negative deviation", "normalise.std", "t[n] *= -1"),
        ("weights too large to compute with", "classify.weight", "t[n][:] = 3e38; t[n][0] *= -1"),
    ):
        code = f"change('whole/model', {end!r}, {change!r})"
        for command in ("predict", "export", "evaluate"):
            case = trying(nothing, *words_of(command, "whole/"), code=code, must="refused")
            yield f"{words}, {command}", case
    for factor in ("1e4", "1e6", "1e8"):
        code = f"change('whole/model', 'classify.weight', 't[n] *= {factor}')"
        case = trying(nothing, "export", "whole", code=code, must="done")
        yield f"logits {factor} times as large are exported", case
