"""The numbers of a model: what is allowed, and who is named when one is not."""

import dataclasses
from typing import Any

import pytest

from transformer_lib import ModelConfig


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("vocab_size", 0),
        ("n_layers", "6"),
        ("dropout", 1.0),
        ("attention_dropout", 1.0),
        ("rotary_base", 0.5),
        ("bias", None),
        ("activation", "swish"),
        ("final_norm", "yes"),
        ("eos_id", 100),
    ],
)
def test_errors_name_the_field_and_the_value(field: str, value: Any) -> None:
    with pytest.raises((TypeError, ValueError), match=rf"^{field} must .*{value}"):
        ModelConfig(**{"vocab_size": 100, field: value})


def test_errors_of_fields_that_do_not_go_together() -> None:
    with pytest.raises(ValueError, match=r"d_model \(20\) must be divisible by n_heads \(3\)"):
        ModelConfig(vocab_size=100, d_model=20, n_heads=3)
    with pytest.raises(ValueError, match=r"d_model must be even.*15"):
        ModelConfig(vocab_size=100, d_model=15, n_heads=3)
    with pytest.raises(ValueError, match=r"eos_id must differ from pad_id, both are 0"):
        ModelConfig(vocab_size=100, eos_id=0)
    with pytest.raises(ValueError, match=r"n_heads \(8\) must be divisible by n_kv_heads \(3\)"):
        ModelConfig(vocab_size=100, n_kv_heads=3)
    with pytest.raises(ValueError, match=r"d_model / n_heads must be even.*15 / 3"):
        ModelConfig(vocab_size=100, d_model=15, n_heads=3, positions="rotary")


def test_odd_widths_are_refused_only_where_waves_need_pairs() -> None:
    assert ModelConfig(vocab_size=9, d_model=15, n_heads=3, positions="alibi").d_head == 5


def test_it_is_frozen_keyword_only_and_makes_the_round_trip() -> None:
    config = ModelConfig.tiny(vocab_size=100, n_decoder_layers=2)
    assert ModelConfig(**dataclasses.asdict(config)) == config
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.d_model = 3  # type: ignore[misc]
    with pytest.raises(TypeError):
        ModelConfig(100)  # type: ignore[misc]


def test_presets_are_those_of_the_papers() -> None:
    tiny, base, big = (
        make(vocab_size=37_000) for make in (ModelConfig.tiny, ModelConfig.base, ModelConfig.big)
    )
    names = ("n_layers", "d_model", "d_ff", "n_heads", "d_head", "dropout")
    assert [getattr(tiny, name) for name in names] == [4, 128, 256, 4, 32, 0.3]
    assert [getattr(base, name) for name in names] == [6, 512, 2048, 8, 64, 0.1]
    assert [getattr(big, name) for name in names] == [6, 1024, 4096, 16, 64, 0.3]
