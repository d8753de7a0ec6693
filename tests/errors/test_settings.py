"""Settings and options: refused before a folder is made."""

from pathlib import Path

import pytest
import torch
from standins.user import TINY, done, refused

SETTINGS = [
    ("--method vinas", "unknown method 'vinas'", "did you mean 'vinnas'?"),
    ("--method ''", "method.name = '' must be the name of a method", "ardor list methods"),
    ("--method ..x", "method.name = '..x' must be the name of a method", ""),
    ("--method no.such", "no module 'no.such' for the method", "PYTHONPATH"),
    ("--method json.decoder", "module 'json.decoder' has 0 classes", ""),
    ("--space cels", "unknown space 'cels'", "did you mean 'cells'?"),
    ("--preset digit", "unknown preset 'digit'", "did you mean 'digits'?"),
    ("--set search.epoch=3", "unknown setting 'search.epoch'", "did you mean 'search.epochs'?"),
    ("--set serch.epochs=3", "unknown setting 'serch'", "did you mean 'search'?"),
    ("--set method.kl_gate=1", "unknown setting 'method.kl_gate'", "'method.kl_gates'"),
    ("--set space.chanels=4", "unknown setting 'space.chanels'", "'space.channels'"),
    ("--set network.chanels=3", "unknown setting 'network.chanels'", "'network.channels'"),
    ("--set qqq=3", "unknown setting 'qqq'; known: compress, data, device", "choose one"),
    ("--set search.batch=0", "search.batch = 0 must be greater than or equal to 2", ""),
    ("--set search.rate=-1", "search.rate = -1 must be greater than 0", ""),
    ("--set search.rate=nan", "search.rate = nan must be a finite number", ""),
    ("--set train.rate=inf", "train.rate = inf must be a finite number", ""),
    ("--set search.rate=fast", "search.rate = 'fast' must be a number", "ardor list settings"),
    ("--set method.kl_gates=nan", "method.kl_gates = nan must be a finite number", ""),
    ("--set prune.threshold=nan", "prune.threshold = nan must be a finite number", ""),
    ("--set seed=-1", "seed = -1 must be greater than or equal to 0", ""),
    ("--set seed=1.5", "seed = 1.5 must be a whole number", ""),
    ("--set seed=true", "seed = True must be a whole number", ""),
    ("--seed -1", "seed = -1 must be greater than or equal to 0", ""),
    ("--epochs -1", "search.epochs = -1 must be greater than or equal to 0", ""),
    ("--epochs 0", "search.epochs = 0 must be at least 1: nothing would be", "--method random"),
    ("--epochs 1000000", "search.epochs = 1000000 must be less than or equal to 99999", ""),
    ("--set search.rounds=99999", "search.rounds = 99999 must be less than or equal to 100", ""),
    ("--set search.weight_decay=1e308", "search.weight_decay = 1e+308 must be less than", ""),
    ("--set search.candidates=9999999", "search.candidates = 9999999 must be less than", ""),
    ("--set search.batch=99999999", "search.batch = 99999999 must be less than", ""),
    ("--set prune.threshold=1e308", "prune.threshold = 1e+308 must be less than", ""),
    ("--set prune.max_params=99999999999999", "prune.max_params = 99999999999999 must be", ""),
    ("--set space.states=100", "space.states = 100 must be less than or equal to 20", ""),
    ("--set space.channels=9999999", "space.channels = 9999999 must be less than", ""),
    (f"--set seed={'9' * 400}", "a whole number of 1329 bits is too large", "list settings"),
    (f"--set seed={'9' * 9000}", "'seed=999", "ardor list settings"),
    (f"--set seed={'[' * 9000}", "lists or objects are in one another more than", ""),
    (f"--set {'a.' * 9000}a=1", "a=1' names no setting", "ardor list settings"),
    ("--config deep.toml", "'deep.toml': lists or objects are in one another more", "TOML"),
    ("--config /dev/null", "'/dev/null': it is no regular file", "TOML"),
    (
        "--set space.states=20 --set space.ops=darts --set space.layout=8N",
        "8 cells x 230 edges x 8 operations = 14,720 candidates; must be at most 10,000",
        "fewer space.states",
    ),
    (
        "--set space.channels=9000 --set space.ops=darts",
        "weights, with up to 18,000 channels; must be at most 1,073,741,824",
        "fewer channels",
    ),
    (
        "--set space.layout=N --set space.channels=1 --set space.halvings=1",
        "space.channels = 1 must be at least 2 with space.halvings = 1",
        "space.channels=2",
    ),
    ("--set search.epochs.x=4", "search.epochs = {'x': 4} must be a whole number", ""),
    ("--set search.augment=crop", "search.augment = 'crop' must be a list", ""),
    ("--set search.gate_betas=[0.5]", "search.gate_betas.1 = [0.5] must be given", ""),
    ("--set train.variational=7", "train.variational = 7 must be true or false", ""),
    ("--set space.layout=NXR", "space.layout 'NXR' must be cells N and R", "for example"),
    ("--set space.layout=6", "space.layout = 6 must be text", ""),
    ("--set space.layout=RRRR", "'RRRR' halves 8 pixels more often", "fewer reduction cells"),
    ("--set network.layout=RRRR", "'RRRR' halves 8 pixels more often", "fewer reduction cells"),
    ("--set space.ops=sep_conv_3x4", "unknown operation 'sep_conv_3x4'", "'sep_conv_3x3'"),
    ("--set space.ops=skip_connect", "must be at least two operations", ""),
    ("--set space.classes=3", "space.classes = 3 must be left out", "data.size"),
    ("--set network.image=[1,8,8]", "network.image = [1, 8, 8] must be left out", "data.size"),
    ("--set network.states=3", "{'states': 3} change the choice 'reduce/0>3'", "channels"),
    ("--method darts --set method.order=3", "method.order = 3 must be 1 or 2", ""),
    ("--set device=tpu", "device = 'tpu' must be 'auto', 'cpu', 'cuda' or 'mps'", ""),
    ("--device tpu", "device = 'tpu' must be 'auto', 'cpu', 'cuda' or 'mps'", ""),
    ("--time soon", "time = 'soon' must be a time such as 20m", "ardor list settings"),
    ("--set search.accumulate=0", "search.accumulate = 0 must be greater than or equal to 1", ""),
    ("--set novalue", "'novalue' must be NAME=VALUE", "for example"),
    ("--set =3", "'=3' must be NAME=VALUE", "for example"),
    ("--set search=3", "search = 3 must be settings by name", "search.NAME=VALUE"),
    ("--set data=3", "data = 3 must be settings by name", ""),
    ("--set method=darts", "method = 'darts' must be settings by name", ""),
    ("--set method.name=5", "method.name = 5 must be the name of a method", ""),
    ("--set data.size=4", "data.size is 4; must be 0 or at least 8", ""),
    ("--set data.channels=2", "data.channels = 2 must be 0, 1 or 3", ""),
    ("--set data.test=1", "data.test = 1 must be less than 1", ""),
    ("--set data.test=0.9", "class 'a' in", "lower data.test"),
    ("--set data.source=nowhere", "no such file or folder: 'nowhere'", ""),
    ("--config nowhere.toml", "'nowhere.toml': No such file or directory", "TOML"),
    ("--config .", "cannot read settings from '.': Is a directory", "TOML"),
    ("--config broken.toml", "cannot read settings from 'broken.toml': ", "TOML"),
    ("--config binary.toml", "cannot read settings from 'binary.toml': ", "TOML"),
    ("--config wrong.toml", "search.batch = -3 must be greater than or equal to 2", ""),
]


def test_a_network_from_scratch_needs_an_epoch_and_chance_needs_none(data: Path) -> None:
    error, hint = "train.epochs = 0 must be at least 1 with train.start = 'scratch'", "start=search"
    for words in (["--set", "train.epochs=0"], ["--method", "random", "--epochs", "0"]):
        for dry in ([], ["--dry-run"]):
            arguments = ("run", data, "--run", "new", *TINY, *words, *dry)
            refused(*arguments, error=error, hint=hint)
    assert not Path("new").exists()
    done("search", data, "--run", "new", *TINY, "--method", "random", "--epochs", "0")
    refused("train", "new", "--epochs", "0", error=error, hint=hint)


@pytest.mark.parametrize(("words", "error", "hint"), SETTINGS, ids=[s[0][:60] for s in SETTINGS])
def test_a_wrong_setting_is_named_and_no_folder_is_made(
    data: Path, tmp_path: Path, words: str, error: str, hint: str
) -> None:
    (tmp_path / "broken.toml").write_text("[search\nepochs = 3")
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "wrong.toml").write_text("[search]\nbatch = -3")
    (tmp_path / "deep.toml").write_text("seed = " + "[" * 9000)
    arguments = ["" if word == "''" else word for word in words.split(" ")]
    refused("search", data, "--run", "new", *TINY, *arguments, error=error, hint=hint)
    refused("run", data, *TINY, *arguments, error=error, hint=hint)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "binary.toml",
        "broken.toml",
        "deep.toml",
        "wrong.toml",
    ]


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is one")
def test_a_device_that_is_not_there_is_told_before_a_folder_is_made(data: Path) -> None:
    refused("run", data, "--run", "new", *TINY, "--device", "cuda", error="no device 'cuda'")
    assert not Path("new").exists()


USAGE = [
    ("serch", "unknown command 'serch'; known: bench, check", "did you mean 'search'?"),
    ("qqq", "unknown command 'qqq'", "choose one"),
    ("--nope", "No such option '--nope'", "see 'ardor --help'"),
    ("run", "Missing argument 'DATA'", "see 'ardor run --help'"),
    ("run d --epochs x", "'x' is not a valid integer", "see 'ardor run --help'"),
    ("run d --seed 1.5", "'1.5' is not a valid integer", "see 'ardor run --help'"),
    ("run d --set", "Option '--set' requires an argument", "--help'"),
    ("list", "Choose from: methods, spaces, architectures, networks", "see 'ardor list --help'"),
    ("list qqq", "'qqq' is not one of 'methods'", "see 'ardor list --help'"),
    ("compare", "Missing argument 'RUN...'", "see 'ardor compare --help'"),
    ("predict run", "Missing argument 'IMAGES...'", "see 'ardor predict --help'"),
    ("bench digits --seeds 0", "0 is not in the range", "see 'ardor bench --help'"),
    ("prune run --threshold x", "'x' is not a valid float", "see 'ardor prune --help'"),
]


@pytest.mark.parametrize(("words", "error", "hint"), USAGE, ids=[u[0] for u in USAGE])
def test_wrong_usage_ends_with_2(words: str, error: str, hint: str) -> None:
    refused(*words.split(), error=error, hint=hint, code=2)


def test_nothing_at_all_is_answered_with_help() -> None:
    assert "Usage: ardor" in done().out


def test_an_unknown_bench_is_refused() -> None:
    refused("bench", "digit", error="unknown bench 'digit'", hint="did you mean 'digits'?")
    refused("bench", "speed", "--data", "x", error="--data x is not for the bench 'speed'")
    Path("file").write_text("mine")
    refused("bench", "digits", "--folder", "file", error="cannot write 'file/digits")
    assert Path("file").read_text() == "mine"
