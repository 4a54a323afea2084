"""Parity with Hugging Face's GPT-2, BERT and Marian: same weights, same numbers, same text.

Llama has its own file.
"""

import logging
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from transformers import (
    BertConfig,
    BertForMaskedLM,
    BertForPreTraining,
    BertModel,
    GPT2Config,
    GPT2LMHeadModel,
    GPT2Model,
    LlamaConfig,
    LlamaForCausalLM,
    MarianConfig,
    MarianMTModel,
)

from transformer_lib.decoding import beam_search, greedy
from transformer_lib.models import parameter_counts
from transformer_lib.pretrained import (
    from_bert,
    from_gpt2,
    from_llama,
    from_marian,
)

V, D, H, FF, LONGEST = 37, 20, 5, 23, 29
PAD, END = 36, 0  # as in Marian: <eos> first, padding last


def randomised(peer: Any, dtype: torch.dtype = torch.float64) -> Any:
    """Draw every weight, since zeros and ones would hide mistakes."""
    torch.manual_seed(0)
    for name, parameter in peer.named_parameters():
        if "embed_positions" not in name:  # sines and cosines
            nn.init.normal_(parameter, std=0.4)
    if hasattr(peer, "final_logits_bias"):
        peer.final_logits_bias.normal_()
    return peer.to(dtype).eval()


def gpt2(kind: Any = GPT2LMHeadModel, **options: Any) -> Any:
    sizes = {"vocab_size": V, "n_embd": D, "n_head": H, "n_layer": 3, "n_inner": FF}
    ids = {"n_positions": LONGEST, "bos_token_id": 7, "eos_token_id": 7}
    return kind(GPT2Config(**(sizes | ids | options)))


def bert(kind: Any = BertForPreTraining, **options: Any) -> Any:
    sizes = {"vocab_size": V, "hidden_size": D, "num_attention_heads": H, "num_hidden_layers": 3}
    more = {"intermediate_size": FF, "max_position_embeddings": LONGEST, "type_vocab_size": 3}
    return kind(BertConfig(**(sizes | more | {"pad_token_id": 5} | options)))


def llama(
    kind: Any = LlamaForCausalLM, settings: Any = LlamaConfig, heads: int = H, **options: Any
) -> Any:
    sizes = {"vocab_size": V, "hidden_size": D, "num_hidden_layers": 3, "intermediate_size": FF}
    sizes |= {"num_attention_heads": heads, "num_key_value_heads": 1}
    more = {"max_position_embeddings": LONGEST, "bos_token_id": 6, "eos_token_id": 7}
    return kind(settings(**(sizes | more | options)))


def marian(**options: Any) -> Any:
    sizes = {"vocab_size": V, "d_model": D, "encoder_layers": 2, "decoder_layers": 3}
    sizes |= {"encoder_attention_heads": H, "decoder_attention_heads": H}
    sizes |= {"encoder_ffn_dim": FF, "decoder_ffn_dim": FF, "max_position_embeddings": LONGEST}
    ids = {"pad_token_id": PAD, "decoder_start_token_id": PAD, "eos_token_id": END}
    plain = {"forced_eos_token_id": None, "scale_embedding": True}
    return MarianMTModel(MarianConfig(**(sizes | ids | plain | options)))


def writer(peer: Any) -> Any:
    """Give the model large weights, so that it says many words and ends some texts.

    Large biases alone would decide each next word, always the same.
    """
    torch.manual_seed(17)
    for name, parameter in peer.named_parameters():
        if "embed_positions" not in name:
            # Large queries attend to few words.
            std = 0.1 if name.endswith("bias") else 2.0 if "q_proj" in name else 0.7
            nn.init.normal_(parameter, std=std)
    if hasattr(peer, "final_logits_bias"):
        peer.final_logits_bias.normal_()[:, END] += 1
    return peer.double().eval()


def close(found: Tensor, expected: Tensor) -> None:
    assert found.dtype is expected.dtype
    bound = 1e-10 if found.dtype is torch.float64 else 1e-5
    torch.testing.assert_close(found, expected, rtol=bound, atol=bound)


DTYPES = pytest.mark.parametrize("dtype", [torch.float32, torch.float64])


# --- GPT-2 ---------------------------------------------------------------------------------------


@DTYPES
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"tie_word_embeddings": False},
        {"n_inner": None},
        {"activation_function": "gelu"},
        {"activation_function": "relu", "layer_norm_epsilon": 0.1},
        {"activation_function": "silu", "eos_token_id": 0, "bos_token_id": 3},
    ],
)
def test_gpt2_predicts_the_same(options: dict, dtype: torch.dtype) -> None:
    peer = randomised(gpt2(**options), dtype)
    ids = torch.randint(V, (3, 11))
    ids[0] = torch.arange(11)  # the padding is a token like any other
    close(from_gpt2(peer)(ids), peer(ids).logits)


def test_gpt2_without_a_head_uses_the_embeddings() -> None:
    peer = randomised(gpt2(GPT2Model))
    ids = torch.randint(V, (3, 11))
    close(from_gpt2(peer)(ids), peer(ids).last_hidden_state @ peer.wte.weight.T)


def test_gpt2_ids() -> None:
    assert from_gpt2(gpt2()).config.bos_id == from_gpt2(gpt2()).config.eos_id == 7
    assert from_gpt2(gpt2()).config.pad_id == 0
    assert from_gpt2(gpt2(eos_token_id=0)).config.pad_id == 1
    assert from_gpt2(gpt2(pad_token_id=7)).config.pad_id == 0
    assert from_gpt2(gpt2(pad_token_id=9)).config.pad_id == 9
    assert from_gpt2(gpt2(pad_token_id=-1)).config.pad_id == 0  # no token


# --- BERT ----------------------------------------------------------------------------------------


def texts() -> tuple[Tensor, Tensor, Tensor]:
    """Ids and types of three texts of different length, and where they aren't padding."""
    torch.manual_seed(1)
    ids, types = torch.randint(6, V, (3, 11)), torch.randint(3, (3, 11))
    ids[1, 8:] = ids[2, 2:] = 5
    return ids, types, ids != 5


@DTYPES
@pytest.mark.parametrize("options", [{}, {"tie_word_embeddings": False}, {"layer_norm_eps": 0.1}])
def test_bert_predicts_the_same(options: dict, dtype: torch.dtype) -> None:
    peer = randomised(bert(**options), dtype)
    ids, types, real = texts()
    ours = from_bert(peer)
    expected = peer(
        ids, attention_mask=real.long(), token_type_ids=types, output_hidden_states=True
    )
    close(ours(ids, types)[real], expected.prediction_logits[real])
    close(ours.encode(ids, types)[real], expected.hidden_states[-1][real])
    close(ours(ids)[real], peer(ids, attention_mask=real.long()).prediction_logits[real])
    pooled = peer.bert(ids, attention_mask=real.long(), token_type_ids=types).pooler_output
    close(ours.pooled(ids, types), pooled)


def test_bert_for_masked_words_has_no_pooler(caplog: pytest.LogCaptureFixture) -> None:
    peer = randomised(bert(BertForMaskedLM))
    ids, types, real = texts()
    with caplog.at_level(logging.WARNING):
        ours = from_bert(peer)
    assert caplog.messages == ["peer has no pooler: the new model's is initialized at random"]
    expected = peer(ids, attention_mask=real.long(), token_type_ids=types).logits
    close(ours(ids, types)[real], expected[real])


@pytest.mark.parametrize("activation", ["gelu", "relu"])
def test_bert_without_a_head_gives_its_vectors(activation: str, caplog) -> None:
    peer = randomised(bert(BertModel, hidden_act=activation))
    ids, types, real = texts()
    with caplog.at_level(logging.WARNING):
        ours = from_bert(peer)
    assert not caplog.text
    expected = peer(ids, attention_mask=real.long(), token_type_ids=types)
    close(ours(ids, types)[real], expected.last_hidden_state[real])
    close(ours.pooled(ids, types), expected.pooler_output)
    assert sum(p.numel() for p in ours.parameters()) == peer.num_parameters()
    assert sum(parameter_counts(ours.config, "encoder").values()) == peer.num_parameters()


# --- Marian --------------------------------------------------------------------------------------


def pairs() -> tuple[Tensor, Tensor]:
    """Sources and targets of different length; targets begin with padding, as in Marian."""
    torch.manual_seed(2)
    source, target = torch.randint(1, PAD, (3, 11)), torch.randint(1, PAD, (3, 7))
    source[1, 8:] = source[2, 2:] = PAD
    target[:, 0] = target[0, 5:] = target[2, 3:] = PAD
    return source, target


@DTYPES
@pytest.mark.parametrize(
    "options",
    [
        {"activation_function": "swish"},
        {"activation_function": "relu", "scale_embedding": False},
        {"encoder_layers": 4, "decoder_layers": 1},
    ],
)
def test_marian_predicts_the_same(options: dict, dtype: torch.dtype) -> None:
    peer = randomised(marian(**options), dtype)
    source, target = pairs()
    real = target != PAD
    real[:, 0] = True
    expected = peer(
        source, attention_mask=(source != PAD).long(),
        decoder_input_ids=target, decoder_attention_mask=real.long(),
    ).logits  # fmt: skip
    close(from_marian(peer)(source, target)[real], expected[real])


def marian_writer() -> tuple[Any, Tensor]:
    """A model and what it translates."""
    peer, source = writer(marian()), torch.randint(1, PAD, (7, 11))
    source[1, 8:] = source[2, 2:] = source[5, 7:] = PAD
    return peer, source


def generated(peer: Any, source: Tensor, **options: Any) -> Any:
    return peer.generate(
        source, attention_mask=(source != PAD).long(), do_sample=False, max_new_tokens=19,
        return_dict_in_generate=True, **options,
    )  # fmt: skip


@pytest.mark.parametrize("early_stopping", [True, False])
def test_marian_searches_the_same_beams(early_stopping: bool) -> None:
    """All four texts of each row, in order. The length penalties differ, except at 0."""
    peer, source = marian_writer()
    options = {"length_penalty": 0.0, "early_stopping": early_stopping}
    expected = generated(
        peer, source, num_beams=4, num_return_sequences=4, output_scores=True, **options
    )
    ids = {"bos_id": PAD, "eos_id": END, "pad_id": PAD}
    found = beam_search(from_marian(peer), source, max_len=19, beam_size=4, **ids, **options)
    theirs = expected.sequences[:, 1:].view(7, 4, -1)
    width = found.ids.size(-1)  # theirs may have another column of padding
    assert found.ids.equal(theirs[..., :width]) and (theirs[..., width:] == PAD).all()
    torch.testing.assert_close(found.scores.flatten(), expected.sequences_scores)
    first = greedy(from_marian(peer), source, max_len=19, **ids).scores
    assert (found.best.scores > first + 1e-3).sum() > 3  # beams find better texts
    assert 7 < (theirs == END).any(-1).sum() < 28


def test_marian_with_padding_banned_from_its_texts() -> None:
    peer, source = marian_writer()
    peer.final_logits_bias[:, PAD] += 30
    assert (generated(peer, source).sequences[:, 1] == PAD).any()
    expected = generated(peer, source, bad_words_ids=[[PAD]]).sequences[:, 1:]
    ours = from_marian(peer)
    with torch.no_grad():
        assert ours.embedding.bias is not None
        ours.embedding.bias[PAD] = -torch.inf
    found = greedy(ours, source, max_len=19, bos_id=PAD, eos_id=END, pad_id=PAD)
    assert found.ids.equal(expected)


# --- all of them ---------------------------------------------------------------------------------

ALL = pytest.mark.parametrize(
    "convert, make",
    [(from_gpt2, gpt2), (from_bert, bert), (from_llama, llama), (from_marian, marian)],
)


@ALL
def test_weights_are_copied_and_the_mode_is_the_peers(convert: Callable, make: Callable) -> None:
    peer = randomised(make(), torch.bfloat16)
    ours = convert(peer)
    assert {p.dtype for p in ours.parameters()} == {torch.bfloat16}
    assert not any(module.training for module in ours.modules())
    assert all(module.training for module in convert(peer.train()).modules())
    before = {name: tensor.clone() for name, tensor in peer.state_dict().items()}
    for parameter in ours.parameters():
        nn.init.zeros_(parameter)
    assert all(tensor.equal(before[name]) for name, tensor in peer.state_dict().items())


@pytest.mark.parametrize(
    "convert, peer, inner",
    [
        (from_gpt2, lambda: gpt2(resid_pdrop=0.1, attn_pdrop=0.2), 0.0),
        (from_llama, lambda: llama(attention_dropout=0.2), None),
        (
            from_bert,
            lambda: bert(hidden_dropout_prob=0.1, attention_probs_dropout_prob=0.2),
            0.0,
        ),
        (
            from_marian,
            lambda: marian(dropout=0.1, attention_dropout=0.2, activation_dropout=0.3),
            0.3,
        ),
    ],
)
def test_dropout_rates_are_converted(convert: Callable, peer: Callable, inner: float) -> None:
    config = convert(peer()).config
    assert (config.dropout, config.attention_dropout) == (0.0 if inner is None else 0.1, 0.2)
    assert config.activation_dropout == inner


@ALL
def test_another_class_is_refused(convert: Callable, make: Callable) -> None:
    namesake = type(type(make()).__name__, (nn.Module,), {})()
    for peer in (make().config, namesake):
        with pytest.raises(TypeError, match=r"peer must be a .* of transformers, got"):
            convert(peer)


@ALL
def test_what_is_not_plain_weights_is_refused(convert: Callable, make: Callable) -> None:
    """An adapter, which copying by name would miss; integers, which need a scale."""
    peer = make()
    layer = next(m for m in peer.modules() if isinstance(m, nn.ModuleList))[1]
    layer.adapter = nn.Linear(2, 3, bias=False)
    with pytest.raises(
        ValueError, match=r"(?s)an adapter such as LoRA must be merged.*1\.adapter\.weight"
    ):
        convert(peer)
    peer = make()
    name, weight = next((n, p) for n, p in peer.named_parameters() if "layer" in n or ".h." in n)
    weight.requires_grad_(False).data = weight.to(torch.int8)
    with pytest.raises(ValueError, match=rf"not be quantized: its {name} is torch.int8"):
        convert(peer)


@pytest.mark.parametrize(
    "make, complaint",
    [
        (lambda: gpt2(add_cross_attention=True), "add_cross_attention must be False, got True"),
        (lambda: gpt2(activation_function="tanh"), "activation_function must be one of .*'tanh'"),
        (lambda: gpt2(eos_token_id=None), r"eos_token_id must be in \[0, 37\), got None"),
        (lambda: gpt2(bos_token_id=V), r"bos_token_id must be in \[0, 37\), got 37"),
        (lambda: bert(BertModel, is_decoder=True), "is_decoder must be False"),
        (
            lambda: bert(position_embedding_type="relative_key"),
            "position_embedding_type must be 'absolute', got 'relative_key'",
        ),
        (lambda: bert(hidden_act="relu"), "hidden_act must be 'gelu', got 'relu'"),
        (lambda: bert(pad_token_id=None), r"pad_token_id must be in \[0, 37\), got None"),
        (lambda: marian(share_encoder_decoder_embeddings=False), "share_encoder_decoder_embed"),
        (lambda: marian(decoder_ffn_dim=19), "decoder_ffn_dim must be 23, got 19"),
        (lambda: marian(tie_word_embeddings=False), "must share the encoder's embed"),
        (lambda: marian(pad_token_id=END), "eos_id must differ from pad_id"),
    ],
)
def test_what_ours_cannot_represent_is_refused(make: Callable, complaint: str) -> None:
    peer = make()
    convert = {"GPT2LMHeadModel": from_gpt2, "MarianMTModel": from_marian}
    with pytest.raises(ValueError, match=complaint):
        convert.get(type(peer).__name__, from_bert)(peer)
