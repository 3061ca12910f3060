"""Configurations check themselves, and keep their meaning through JSON."""

from __future__ import annotations

from dataclasses import replace
from inspect import signature

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

import tsc_interp as tsc
from tests.cases import CONFIGS, configs
from tsc_interp.config import ClassifierConfig
from tsc_interp.errors import ConfigError, StringError, UsageError
from tsc_interp.tasks.counts import AtLeast, ContainsAll
from tsc_interp.training.config import TrainingConfig


@given(configs())
def test_json_round_trip(config: ClassifierConfig) -> None:
    again = ClassifierConfig.from_json(config.to_json())
    assert again == config
    assert again.key() == config.key()


def test_the_key_is_the_content() -> None:
    # Fixed: a change here orphans every run on every disk.
    assert ClassifierConfig().key() == "66f2967afbea7de5"
    keys = [config.key() for config in CONFIGS]
    assert len(set(keys)) == len(keys)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            {"nosuch": 2},
            "unknown option 'nosuch': the options are act_fn, adaptive_temperature, attend_cls",
        ),
        ({"d_modle": 2}, "unknown option 'd_modle': did you mean 'd_model'?"),
        (
            {"norm": "batch"},
            "norm = 'batch': expected 'off', 'rms', 'layer', 'rms_pre' or 'layer_pre'",
        ),
        ({"d_model": 0}, "d_model = 0: expected at least 1"),
        ({"n_letters": 11_249}, "n_letters = 11249: expected at most 11248"),
        ({"d_model": 2.5}, "d_model = 2.5: expected a whole number"),
        ({"d_model": "2"}, "d_model = '2': expected a whole number"),
        ({"dropout": 1.0}, "dropout = 1.0: expected a number below 1"),
        ({"norm_eps": float("nan")}, "expected a finite number"),
        ({"score_scale": "none"}, "'sqrt_d_head_log_n_cls' or 'sqrt_d_head_ssmax'"),
        ({"task": {"kind": "sum"}}, "tsc-interp has automaton, contains_all, at_least"),
        (
            {"n_letters": 2, "task": {"kind": "contains_all", "letters": "abz"}},
            "needs the letters z",
        ),
    ],
)
def test_refuses_with_what_is_allowed(options: dict[str, object], words: str) -> None:
    with pytest.raises(ConfigError, match="ClassifierConfig: ") as caught:
        ClassifierConfig(**options)
    assert words in str(caught.value)


def test_options_are_given_by_name() -> None:
    for call in (ClassifierConfig, TrainingConfig):
        with pytest.raises(ConfigError, match=r"takes options by name, such as .*; got 5"):
            call(5)
        assert not any(p.kind is p.VAR_POSITIONAL for p in signature(call).parameters.values())
    with pytest.raises(UsageError, match="epoch is a whole number from 1, got 'x'"):
        TrainingConfig().rate("x")  # type: ignore[arg-type]


@pytest.mark.parametrize("text", ["", "[]", "3", "{", '{"d_model": null}'])
def test_refuses_json_that_is_no_config(text: str) -> None:
    with pytest.raises(ConfigError):
        ClassifierConfig.from_json(text)


def test_is_frozen_and_replaced_with_checks() -> None:
    config = ClassifierConfig()
    with pytest.raises(ValidationError):
        config.d_model = 3  # type: ignore[misc]
    assert config.replace(d_model=16).d_model == 16
    assert config.replace(task=AtLeast(k=2)).task == AtLeast(k=2)
    with pytest.raises(ConfigError):
        config.replace(d_model=-1)
    assert config == ClassifierConfig(task=ContainsAll(letters="ba"))


@given(st.integers(1, 4), st.booleans())
def test_weight_shapes_name_every_part_once(n_layers: int, norm: bool) -> None:
    config = ClassifierConfig(n_layers=n_layers, norm="layer" if norm else "off", n_positions=9)
    assert len(config.weight_shapes()) == 3 + n_layers * (6 + 4 * norm)


@pytest.mark.parametrize(
    ("names", "letters", "named"),
    [
        (("red", "green", "blue"), "ab{3}a", "red green{3} red"),
        (("0", "1", "+"), "aacb{12}", "0{2}+1{12}"),
        (("b", "a", "c"), "aab", "b{2} a"),
        (("x{2}", "y", "z"), "a{3}b", "x{2}{3} y"),
        ((), "ab{3}", "ab{3}"),
    ],
)
def test_a_string_in_its_tokens_names_is_read_back(names, letters, named):
    config = ClassifierConfig(token_names=names)
    canonical = config.alphabet.canonical
    assert config.named(letters) == named
    assert canonical(config.filled([named])[0]) == canonical(letters)


@pytest.mark.parametrize("text", ["( q", "<x", "(){", "<x>(", "( {3}"])
def test_errors_speak_of_the_names_of_tokens(text: str) -> None:
    config = ClassifierConfig(token_names=("(", ")", "<x>"))
    with pytest.raises(StringError, match=r"no token .*\(, \), <x>, with spaces between"):
        config.filled([text])


def test_a_verdict_names_its_first_error_in_the_names_of_tokens() -> None:
    plain = tsc.load("generalization-errors").to_checkpoint()
    named = replace(plain, config=plain.config.replace(token_names=("x", "y", "<z>")))
    verdict = tsc.verify(named, 70)
    assert "the first x y{66}" in repr(verdict)
    assert verdict.shortest is not None
    assert (verdict.shortest.string, verdict.shortest.text) == ("ab{66}", "x y{66}")
    assert "x y{66}" in repr(tsc.horizon(named))
