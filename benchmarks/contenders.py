"""The models that are compared: ours, `torch.nn.Transformer`, Hugging Face's `MarianMTModel`."""

import os
import warnings
from collections.abc import Callable

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # nothing here is downloaded

import torch
import torch.nn.functional as F
import transformers
from torch import Tensor, nn

from transformer_lib import ModelConfig, SinusoidalPositions
from transformer_lib.training import cross_entropy

warnings.filterwarnings("ignore", message="enable_nested_tensor is True")
CONFIG = ModelConfig(
    vocab_size=8000, d_model=256, n_heads=8, n_layers=3, d_ff=1024, dropout=0.1, max_len=128
)


class TorchTransformer(nn.Module):
    """`nn.Transformer` with tied, scaled embeddings and sinusoidal positions around it."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(config.vocab_size, config.d_model)
        nn.init.normal_(self.embedding.weight, std=config.d_model**-0.5)
        self.positions = SinusoidalPositions(d_model=config.d_model, max_len=config.max_len)
        self.dropout = nn.Dropout(config.dropout)
        self.body = nn.Transformer(
            config.d_model, config.n_heads, config.n_layers, config.n_layers, config.d_ff,
            config.dropout, norm_first=config.pre_norm, batch_first=True,
        )  # fmt: skip

    def embed(self, ids: Tensor) -> Tensor:
        return self.dropout(self.positions(self.embedding(ids) * self.config.d_model**0.5))

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        hidden = source == self.config.pad_id  # True = hidden, as nn.Transformer has it
        future = torch.ones(2 * target.shape[1:], dtype=torch.bool, device=target.device).triu(1)
        x = self.body(
            self.embed(source), self.embed(target), tgt_mask=future, tgt_is_causal=True,
            src_key_padding_mask=hidden, memory_key_padding_mask=hidden,
            tgt_key_padding_mask=target == self.config.pad_id,
        )  # fmt: skip
        return F.linear(x, self.embedding.weight)


class Marian(nn.Module):
    """A Marian of the same size, on its fastest attention, with nothing extra in `generate`."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.pad_id = config.pad_id
        self.body = transformers.MarianMTModel(
            transformers.MarianConfig(
                vocab_size=config.vocab_size, decoder_vocab_size=config.vocab_size,
                d_model=config.d_model, max_position_embeddings=config.max_len,
                encoder_layers=config.n_layers, decoder_layers=config.n_layers,
                encoder_attention_heads=config.n_heads, decoder_attention_heads=config.n_heads,
                encoder_ffn_dim=config.d_ff, decoder_ffn_dim=config.d_ff,
                dropout=config.dropout, attention_dropout=config.dropout,
                activation_dropout=config.dropout, activation_function=config.activation,
                init_std=config.d_model**-0.5, scale_embedding=True,
                pad_token_id=config.pad_id, bos_token_id=config.bos_id, eos_token_id=config.eos_id,
                decoder_start_token_id=config.bos_id, forced_eos_token_id=None,
            )
        )  # fmt: skip
        self.body.set_attn_implementation("sdpa")
        self.body.generation_config = transformers.GenerationConfig(
            pad_token_id=config.pad_id, decoder_start_token_id=config.bos_id,
            eos_token_id=config.vocab_size,  # never found: no text ends
        )  # fmt: skip

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        return self.body(
            input_ids=source, attention_mask=(source != self.pad_id).long(),
            decoder_input_ids=target,
            decoder_attention_mask=(target != self.pad_id).long(), use_cache=False,
        ).logits  # fmt: skip

    def generate(self, source: Tensor, new_tokens: int, beams: int) -> Tensor:
        search = {"early_stopping": True, "length_penalty": 0.6} if beams > 1 else {}
        return self.body.generate(
            input_ids=source, attention_mask=(source != self.pad_id).long(),
            max_new_tokens=new_tokens, num_beams=beams, do_sample=False, use_cache=True, **search,
        )[:, 1:]  # fmt: skip


def trainer(model: nn.Module) -> Callable[[Tensor, Tensor], None]:
    """Makes one update of the model, in bfloat16 where there is a GPU, in float32 otherwise."""
    adam = torch.optim.Adam(model.parameters(), lr=1e-4, betas=(0.9, 0.98), eps=1e-9, fused=True)

    def update(source: Tensor, target: Tensor) -> None:
        model.train()
        with torch.autocast("cuda", torch.bfloat16, enabled=source.is_cuda):
            logits, labels = model(source, target[:, :-1]), target[:, 1:]
            loss = cross_entropy(logits, labels, pad_id=CONFIG.pad_id, label_smoothing=0.1).mean
        adam.zero_grad()
        loss.backward()
        adam.step()

    return update


def sentences(batch: int, length: int, vocab_size: int = CONFIG.vocab_size) -> Tensor:
    """Random ids, `(batch, length)`; rows end a little early, as those of a real batch do."""
    ids = torch.randint(4, vocab_size, (batch, length))
    lengths = torch.randint(length - length // 4, length + 1, (batch, 1))
    lengths[0] = length
    return ids.masked_fill(torch.arange(length) >= lengths, CONFIG.pad_id)
