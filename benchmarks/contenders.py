"""The models that are compared: ours, `torch.nn.Transformer`, Hugging Face's `MarianMTModel`."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # nothing here is downloaded

import torch
import torch.nn.functional as F
import transformers
from torch import Tensor, nn

from transformer_lib import ModelConfig, SinusoidalPositions, Transformer
from transformer_lib.decoding import beam_search, greedy
from transformer_lib.training import cross_entropy

warnings.filterwarnings("ignore", message="enable_nested_tensor is True")
CONFIG = ModelConfig(
    vocab_size=8000, d_model=256, n_heads=8, n_layers=3, d_ff=1024, dropout=0.1, max_len=128
)


def no_token(config: ModelConfig) -> int:
    """For the id that ends a text: searched for, never found."""
    return config.vocab_size


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

    def future(self, ids: Tensor) -> Tensor:
        return torch.ones(2 * ids.shape[1:], dtype=torch.bool, device=ids.device).triu(1)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        hidden = source == self.config.pad_id  # True = hidden, as nn.Transformer has it
        future = self.future(target)
        x = self.body(
            self.embed(source), self.embed(target), tgt_mask=future, tgt_is_causal=True,
            src_key_padding_mask=hidden, memory_key_padding_mask=hidden,
            tgt_key_padding_mask=target == self.config.pad_id,
        )  # fmt: skip
        return F.linear(x, self.embedding.weight)

    @torch.no_grad()
    def generate(self, source: Tensor, new_tokens: int) -> Tensor:
        """Greedy, without a cache: it has none."""
        hidden = source == self.config.pad_id
        memory = self.body.encoder(self.embed(source), src_key_padding_mask=hidden)
        ids = torch.full((source.size(0), 1), self.config.bos_id)
        for _ in range(new_tokens):
            x = self.body.decoder(
                self.embed(ids), memory, tgt_mask=self.future(ids), tgt_is_causal=True,
                memory_key_padding_mask=hidden,
            )  # fmt: skip
            best = F.linear(x[:, -1], self.embedding.weight).argmax(-1)
            ids = torch.cat((ids, best[:, None]), dim=1)
        return ids[:, 1:]


def marian(config: ModelConfig) -> Any:
    """A Marian of the same size, on its fastest attention, with nothing extra in `generate`."""
    model: Any = transformers.MarianMTModel(
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
    model.set_attn_implementation("sdpa")
    model.generation_config = transformers.GenerationConfig(
        pad_token_id=config.pad_id,
        decoder_start_token_id=config.bos_id,
        eos_token_id=no_token(config),
    )
    return model


class Contender:
    """A model, how it makes logits, how it generates, its loss, and its own optimizer."""

    def __init__(
        self,
        model: nn.Module,
        logits: Callable[[Tensor, Tensor], Tensor],
        generate: Callable[[Tensor, int, int], Tensor] | None = None,
        loss: Callable[[Tensor, Tensor], Tensor] | None = None,
    ) -> None:
        self.model, self.logits, self.generate = model, logits, generate
        self.loss = loss or torch_loss
        self.optimizer = torch.optim.Adam(
            model.parameters(), lr=1e-4, betas=(0.9, 0.98), eps=1e-9, fused=True
        )

    def train_step(self, source: Tensor, target: Tensor) -> None:
        self.model.train()
        # In bfloat16 where there is a GPU, in float32 otherwise: autocast leaves the CPU alone.
        with torch.autocast("cuda", torch.bfloat16, enabled=source.is_cuda):
            loss = self.loss(self.logits(source, target[:, :-1]), target[:, 1:])
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()

    def decode(self, source: Tensor, new_tokens: int, beams: int = 1) -> None:
        self.model.eval()
        ids = self.generate(source, new_tokens, beams) if self.generate else source
        if ids.shape != (len(source), new_tokens):
            raise RuntimeError(f"wanted {len(source)} x {new_tokens} new tokens: {ids.shape}")


def torch_loss(logits: Tensor, labels: Tensor) -> Tensor:
    return F.cross_entropy(
        logits.flatten(0, 1), labels.flatten(), label_smoothing=0.1, ignore_index=CONFIG.pad_id
    )


def our_contender(config: ModelConfig, device: str) -> Contender:
    model = Transformer(config).to(device)

    def text(source: Tensor, new_tokens: int, beams: int) -> Tensor:
        settings = {"max_len": new_tokens, "eos_id": no_token(config)}
        if beams == 1:
            return greedy(model, source, **settings).ids
        return beam_search(model, source, beam_size=beams, n_best=1, **settings).best.ids

    def loss(logits: Tensor, labels: Tensor) -> Tensor:
        return cross_entropy(logits, labels, pad_id=CONFIG.pad_id, label_smoothing=0.1).mean

    return Contender(model, model, text, loss)


def torch_contender(config: ModelConfig, device: str) -> Contender:
    model = TorchTransformer(config).to(device)
    return Contender(model, model, lambda source, new_tokens, _: model.generate(source, new_tokens))


def marian_contender(config: ModelConfig, device: str) -> Contender:
    model = marian(config).to(device)

    def logits(source: Tensor, target: Tensor) -> Tensor:
        return model(
            input_ids=source, attention_mask=(source != config.pad_id).long(),
            decoder_input_ids=target,
            decoder_attention_mask=(target != config.pad_id).long(), use_cache=False,
        ).logits  # fmt: skip

    def text(source: Tensor, new_tokens: int, beams: int) -> Tensor:
        search = {"early_stopping": True, "length_penalty": 0.6} if beams > 1 else {}
        return model.generate(
            input_ids=source, attention_mask=(source != config.pad_id).long(),
            max_new_tokens=new_tokens, num_beams=beams, do_sample=False, use_cache=True, **search,
        )[:, 1:]  # fmt: skip

    return Contender(model, logits, text)


CONTENDERS = {
    "ours": our_contender,
    "nn.Transformer": torch_contender,
    "MarianMTModel": marian_contender,
}


def sentences(batch: int, length: int, vocab_size: int = CONFIG.vocab_size) -> Tensor:
    """Random ids, `(batch, length)`; rows end a little early, as those of a real batch do."""
    ids = torch.randint(4, vocab_size, (batch, length))
    lengths = torch.randint(length - length // 4, length + 1, (batch, 1))
    lengths[0] = length
    return ids.masked_fill(torch.arange(length) >= lengths, CONFIG.pad_id)
