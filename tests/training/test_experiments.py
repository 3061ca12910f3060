"""Experiments as data, and the commands that train them."""

from __future__ import annotations

import json
import os

import pytest

from studies.bundle import BUNDLED, train_bundled
from tsc_interp.checkpoints import bundled_names, load_checkpoint
from tsc_interp.cli import main
from tsc_interp.data import AllStrings, source_test_set
from tsc_interp.errors import ConfigError, UsageError
from tsc_interp.model.evaluation import evaluate
from tsc_interp.reproduction.experiments import SOURCE_EXPERIMENTS, experiment_named
from tsc_interp.reproduction.published import NO_ERRORS, published_figures
from tsc_interp.tasks.counts import AtLeast, ContainsAll, Majority
from tsc_interp.training.experiments import Experiment

QUICK = """
seeds = "0..1"
[classifier]
d_model = [2, 3]
[training]
max_epochs = 2
[training.train]
batches = 4
[training.validation]
batches = 1
[training.test]
batches = 2
"""


@pytest.fixture(scope="module")
def report_runs(tmp_path_factory):
    """All 45 runs, trained once for this file."""
    return tmp_path_factory.mktemp("report")


def run(capsys, *arguments):
    code = main([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


# -- the report --------------------------------------------------------------------------------


def test_the_nine_experiments_are_forty_five_runs_forty_three_of_them_different():
    jobs = [job for experiment in SOURCE_EXPERIMENTS for job in experiment.jobs()]
    assert len(SOURCE_EXPERIMENTS) == 9
    assert len(jobs) == 45
    assert len({(job.config, job.seed) for job in jobs}) == 43
    fixed = experiment_named("all_fixed_length_sequences").cells[0].config
    assert fixed.training.train == AllStrings(length=9, batch_size=64, seed=0)
    heads = experiment_named("increased_num_attention_heads").cells[0].config.classifier
    assert (heads.d_model, heads.n_heads, heads.embedding_init) == (16, 16, "linear_like")


@pytest.mark.slow
def test_every_published_figure_holds(report_runs, capsys):
    """`reproduce --check` on all 45 runs: exit 0, and every published figure checked."""
    code, out, err = run(capsys, "reproduce", "all", "--runs", report_runs, "--check", "--json")
    document = json.loads(out)
    broken = [claim for claim in document["claims"] if not claim["holds"]]
    assert not broken
    assert code == 0
    assert document["schema"] == "tsc-interp/reproduce/1"
    assert len(document["runs"]) == 45
    assert len(document["claims"]) == len(list(published_figures()))
    assert document["seconds"] > 0
    assert set(document["runs"][0]) == {
        "experiment",
        "seed",
        "epochs",
        "chosen_epoch",
        "validation_loss",
        "confusion_matrix",
        "checkpoint",
    }
    matrices = {
        (row["experiment"], row["seed"]): row["confusion_matrix"] for row in document["runs"]
    }
    assert matrices["walkthrough", 5] == NO_ERRORS
    assert matrices["lower_magnitude_initializations", 2] == [[2886, 1443], [0, 5655]]
    assert "43 runs to train, 0 already there" in err


def test_a_claim_that_does_not_hold_is_exit_code_3(report_runs, capsys, monkeypatch):
    wrong = next(claim for claim in published_figures() if claim.statement == "logit of aac")
    monkeypatch.setattr(
        "tsc_interp.reproduction.published.published_figures",
        lambda: [type(wrong)(wrong.experiment, 5, "logit of aac", -8.3, 5e-5, wrong.measure)],
    )
    code, out, _ = run(capsys, "reproduce", "walkthrough", "--runs", report_runs, "--check")
    assert code == 3
    assert "NO" in out
    assert "2,166" in out  # its horizon, as `tsc-interp verify --horizon` gives it
    code, _, _ = run(capsys, "reproduce", "walkthrough", "--runs", report_runs, "--quiet")
    assert code == 0


@pytest.mark.slow
def test_the_bundled_models_are_what_the_trainer_makes(report_runs):
    """Trained anew, they evaluate the same: logits of the whole test set, and its confusion."""
    rebuilt = train_bundled(report_runs)
    assert list(rebuilt) == list(BUNDLED) == bundled_names()
    for name, checkpoint in rebuilt.items():
        shipped = load_checkpoint(name)
        assert shipped.config == checkpoint.config
        rebuilt_loss = checkpoint.provenance["validation_loss"]
        assert shipped.provenance["validation_loss"] == pytest.approx(rebuilt_loss, rel=0.05)
        assert shipped.provenance == {
            **checkpoint.provenance,
            "validation_loss": shipped.provenance["validation_loss"],
        }
        alphabet = shipped.config.alphabet
        strings = sorted({alphabet.write(row) for row in source_test_set(shipped.config)[:2000]})
        for ours, theirs in zip(
            evaluate(checkpoint, strings), evaluate(shipped, strings), strict=True
        ):
            # Other processors round otherwise; up to 0.0026 of a logit was seen.
            assert ours.logit == pytest.approx(theirs.logit, rel=1e-2, abs=1e-2)
            assert ours.prediction == theirs.prediction


def test_list_shows_experiments_models_and_probes(capsys):
    code, out, _ = run(capsys, "list", "--json")
    document = json.loads(out)
    assert code == 0
    assert document["schema"] == "tsc-interp/list/1"
    assert [row["name"] for row in document["experiments"]] == [e.name for e in SOURCE_EXPERIMENTS]
    assert [row["name"] for row in document["models"]] == bundled_names()
    assert "trace" in [row["name"] for row in document["probes"]]
    code, out, _ = run(capsys, "list")
    assert code == 0
    assert "all_initializations" in out


# -- experiments of one's own ------------------------------------------------------------------


def test_a_toml_file_with_a_grid(tmp_path, capsys):
    file = tmp_path / "width.toml"
    file.write_text(QUICK)
    code, out, err = run(capsys, "train", file, "--runs", tmp_path / "runs", "--json")
    document = json.loads(out)
    assert code == 0
    assert document["schema"] == "tsc-interp/train/2"
    cells = [(row["cell"], row["seed"]) for row in document["runs"]]
    assert cells == [("d_model=2", 0), ("d_model=2", 1), ("d_model=3", 0), ("d_model=3", 1)]
    assert document["runs"][2]["config"]["classifier"]["d_model"] == 3
    # Options of a stream change the report's stream; the rest of it stays.
    assert document["runs"][0]["config"]["training"]["test"] == {
        **SOURCE_EXPERIMENTS[0].cells[0].config.training.test.to_dict(),
        "batches": 2,
    }
    assert "4 runs to train" in err
    code, out, err = run(capsys, "train", file, "--runs", tmp_path / "runs")
    assert "0 runs to train, 4 already there" in err
    assert "d_model=3" in out


def test_options_on_the_command_line(tmp_path, capsys):
    options = "max_epochs=1 train.batches=2 validation.batches=1 test.batches=1 learning_rate=0.1"
    settings = [part for o in options.split() for part in ("--set", f"training.{o}")]
    code, out, _ = run(
        capsys, "train", "--seeds", "3,5", "--set", "norm=rms", *settings,
        "--name", "own", "--runs", tmp_path, "--json", "-q",
    )  # fmt: skip
    assert code == 0
    rows = json.loads(out)["runs"]
    assert [(row["experiment"], row["seed"]) for row in rows] == [("own", 3), ("own", 5)]
    assert rows[0]["config"]["classifier"]["norm"] == "rms"
    assert rows[0]["config"]["training"]["learning_rate"] == 0.1


def test_a_diverging_run_is_reported_and_the_others_are_kept(tmp_path, capsys):
    file = tmp_path / "hot.toml"
    file.write_text(QUICK.replace("[training]", "[training]\nlearning_rate = [0.01, 1e38]"))
    code, out, err = run(capsys, "train", file, "--runs", tmp_path / "runs", "--json")
    rows = json.loads(out)["runs"]
    assert code == 1
    assert "4 of 8 runs diverged" in err
    assert [row["ending"] == "diverged" for row in rows] == [False, False, True, True] * 2
    assert rows[2]["validation_loss"] is None


def test_grids_in_python():
    experiment = Experiment.of(
        "grid", range(3), {"d_model": [2, 4], "attend_cls": [False, True]}, {"patience": [2]}
    )
    assert len(experiment.cells) == 4
    assert experiment.cells[1].label == "d_model=2, attend_cls=True, patience=2"
    assert experiment.cells[3].config.classifier.attend_cls is True
    assert len(experiment.jobs()) == 12


@pytest.mark.parametrize(
    ("seeds", "expected"),
    [("0..31", range(32)), ("5..5", [5]), (7, [7]), ([3, 1, 3], [3, 1]), (" 2 .. 4 ", [2, 3, 4])],
)
def test_ways_to_write_seeds(seeds, expected):
    assert Experiment.of("x", seeds).seeds == tuple(expected)


@pytest.mark.parametrize(
    "seeds", ["", "3..1", "a", [-1], [1.5], [], None, "0..99999999999", [True]]
)
def test_seeds_that_are_none(seeds):
    with pytest.raises(ConfigError, match="seeds = "):
        Experiment.of("x", seeds)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[classifier]\nd_model = [2, 0]", r"cell d_model=0: .*expected at least 1"),
        ("[classifier]\nd_modle = 2", r"unknown option .*d_modle.*did you mean 'd_model'"),
        ("[classifier]\nlearning_rate = 1", r"did you mean training\.learning_rate\?"),
        ("[training]\nd_model = 4", r"did you mean classifier\.d_model\?"),
        ("[classifier]\nd_model = []", r"classifier.d_model is an empty list"),
        (
            "[classifier]\nn_letters = [2, 3]",
            r"cell n_letters=2: .*a letter the task does not name",
        ),
        ("colour = 1", r"unknown option 'colour': the options are name, about, seeds, class"),
        ("learning_rate = 1", r"did you mean training\.learning_rate\?"),
        ("[clasifier]", r"did you mean 'classifier'\?"),
        ('name = "../x"', r"cannot name an experiment"),
        ("seeds = 'x'", r"seeds = 'x'"),
        ("[training.train]\nkind = 'no'", r"train"),
        ("= 3", r"not a readable TOML file"),
        ("name = 5", r"name = 5: expected text in quotes"),
        ("about = [1]", r"about = \[1\]: expected text"),
        ("training = 5", r"training = 5: expected a table of options"),
        ("classifier = 'x'", r"classifier = 'x': expected a table"),
        ("[training]\ntrain = 5", r"train"),
        (f"seeds = {'9' * 5000}", r"not a readable TOML file"),
        (f"seeds = '{'9' * 5000}'", r"seeds = '999.*expected a range"),
        (f"seeds = '0..{'9' * 5000}'", r"seeds = '0\.\.9.*expected a range"),
        ("x = " + "[" * 100_000, r"not a readable TOML file"),
        (f"name = '{'n' * 300}'", r"cannot name an experiment"),
        ('[classifier]\ntask = "mayority"', r"task.*majority"),
    ],
)
def test_what_is_wrong_with_a_file(text, message, tmp_path):
    file = tmp_path / "bad.toml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=message) as caught:
        Experiment.load(file)
    assert len(str(caught.value)) < 1_000


@pytest.mark.parametrize(
    ("classifier", "runs"),
    [
        ({f"option{axis}": range(10) for axis in range(10)}, "10,000,000,000"),
        ({"d_model": range(10**15)}, "1,000,000,000,000,000"),
    ],
)
def test_a_grid_too_large_is_refused_from_its_size(classifier, runs):
    """Before any of its cells is made."""
    with pytest.raises(ConfigError, match=f"x has {runs} runs; at most 100,000"):
        Experiment.of("x", 1, classifier)


def test_places_that_hold_no_file(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for place in (tmp_path / "pipe", tmp_path, tmp_path / ("n" * 300)):
        with pytest.raises(ConfigError, match="not a readable TOML file"):
            Experiment.load(place)


def test_a_task_by_its_name(tmp_path):
    file = tmp_path / "tasks.toml"
    file.write_text('[classifier]\ntask = ["majority", "contains-all", "at_least"]')
    experiment = Experiment.load(file)
    assert [cell.label for cell in experiment.cells] == [
        "task=majority", "task=contains-all", "task=at_least",
    ]  # fmt: skip
    tasks = [cell.config.classifier.task for cell in experiment.cells]
    assert tasks == [Majority(), ContainsAll(), AtLeast()]


def test_both_ways_to_write_a_name():
    assert experiment_named("attend-cls") is experiment_named("attend_cls")
    assert load_checkpoint("attend_cls").source == "attend-cls"


@pytest.mark.parametrize(
    "settings",
    [
        ["d_model=" + "9" * 5000],
        ["d_model=" + "[" * 100_000],
        ["train.x=1"],
        ["training.train=5", "training.train.max_length=3"],
        ["=3"],
        ["a..b=1"],
        ["training=5"],
        [".".join("a" * 5000) + "=1"],
    ],
    ids=range(8),
)
def test_settings_that_cannot_be(settings, tmp_path, capsys):
    arguments = [part for setting in settings for part in ("--set", setting)]
    code, out, err = run(capsys, "train", *arguments, "--runs", tmp_path)
    assert (code, out) == (2, "")
    assert len(err) < 1_500
    assert not list(tmp_path.iterdir())


def test_names_that_are_not_there(tmp_path, capsys):
    with pytest.raises(UsageError, match="did you mean 'walkthrough'"):
        experiment_named("walktrough")
    code, out, err = run(capsys, "reproduce", "atend-cls", "--runs", tmp_path)
    assert (code, out) == (2, "")
    assert "did you mean 'attend_cls'" in err
    code, _, err = run(capsys, "train", tmp_path / "none.toml")
    assert code == 2
    assert "no experiment file" in err
    code, _, err = run(capsys, "train", "--set", "d_model", "--runs", tmp_path)
    assert code == 2
    assert "OPTION=VALUE" in err
    assert not list(tmp_path.iterdir())
