// The Transformer: embedding, encoder, decoder, logits.
import { attention, columns } from "./attention.js";
import { add, embed, linear, relu, sinusoidalPositions } from "./graph.js";
import { Tensor } from "./memory.js";
import { norm } from "./norm.js";
import { weightShapes } from "./weights.js";

export const PAD = 0;
export const BOS = 1;
export const EOS = 2;

/** Joins lists of ids into one (B, T) array, padded on the right. */
export function pad(lists) {
  const length = Math.max(...lists.map((list) => list.length));
  const ids = new Int32Array(lists.length * length).fill(PAD);
  lists.forEach((list, i) => ids.set(list, i * length));
  return { ids, shape: [lists.length, length] };
}

// The settings of the library's model that this one can have; what they leave out is the book's own choice.
const KNOWN = {
  activation: ["relu"],
  norm: ["layer"],
  norm_eps: [1e-5],
  final_norm: [null],
  positions: ["sinusoidal", "learned", "none"],
  bias: [true],
  tie_embeddings: [true],
  scale_embeddings: [true],
  n_decoder_layers: [null],
  n_kv_heads: [null],
  qkv_bias: [null, true],
  embedding_norm: [false],
  output_bias: [false],
  n_token_types: [0],
  pad_id: [PAD],
  bos_id: [BOS],
  eos_id: [EOS],
};

/**
 * An encoder-decoder with the settings and the weights of the library's model: `weights` is a list of { name, shape, data }. `switches` turns parts off, to show what they're good for.
 */
export class Transformer {
  constructor(memory, config, weights, switches = {}) {
    for (const [setting, values] of Object.entries(KNOWN)) {
      if (setting in config && !values.includes(config[setting]))
        throw new RangeError(`${setting} must be ${values.join(" or ")}, got ${config[setting]}`);
    }
    Object.assign(this, { memory, config, weights: {} });
    this.switches = { scale: true, causal: true, residual: true, ...switches };
    const given = Object.fromEntries(weights.map((one) => [one.name, one]));
    for (const [name, shape] of weightShapes(config)) {
      if (String(given[name]?.shape) !== String(shape))
        throw new RangeError(`${name} must have shape ${shape}, got ${given[name]?.shape}`);
      this.weights[name] = new Tensor(memory, shape);
      this.weights[name].data.set(given[name].data);
    }
    const { positions, max_len, d_model } = config;
    this.positions =
      positions === "sinusoidal"
        ? sinusoidalPositions(memory, max_len, d_model)
        : positions === "learned"
          ? this.weights["embedding.positions.table"]
          : null;
  }

  linear(graph, name, x, ...rows) {
    return linear(graph, x, this.weights[`${name}.weight`], this.weights[`${name}.bias`], ...rows);
  }

  norm(graph, name, x) {
    return norm(graph, x, this.weights[`${name}.weight`], this.weights[`${name}.bias`]);
  }

  /** Pre-norm: x + sublayer(norm(x)). Post-norm: norm(x + sublayer(x)). */
  residual(graph, name, x, sublayer) {
    const { pre_norm } = this.config;
    const y = sublayer(pre_norm ? this.norm(graph, `${name}.norm`, x) : x);
    const sum = this.switches.residual ? add(graph, x, y) : y;
    return pre_norm ? sum : this.norm(graph, `${name}.norm`, sum);
  }

  /** Multi-head attention from x to memory, or to x itself; `cache` holds the keys and values of earlier calls. */
  attend(graph, name, x, memory, { real, causal = false, cache = null }) {
    const { d_model: d, n_heads: heads } = this.config;
    const [b, t] = x.shape;
    let [query, key, value, s] = [];
    if (memory) {
      // the memory's keys and values are the same at every step
      query = columns(this.linear(graph, `${name}.in_proj`, x, 0, d), 0);
      const both = cache?.both ?? this.linear(graph, `${name}.in_proj`, memory, d, 3 * d); // (B, S, 2 d)
      [key, value, s] = [columns(both, 0), columns(both, d), both.shape[1]];
    } else {
      const all = this.linear(graph, `${name}.in_proj`, x); // (B, T, 3 d): queries, keys, values
      [query, key, value, s] = [columns(all, 0), columns(all, d), columns(all, 2 * d), t];
      if (cache) [key, value, s] = cache.append(all);
    }
    const mixed = attention(graph, {
      query,
      key,
      value,
      b,
      t,
      s,
      heads,
      d: d / heads,
      real,
      causal,
      name,
      scale: this.switches.scale ? (d / heads) ** -0.5 : 1,
    });
    return this.linear(graph, `${name}.out_proj`, mixed);
  }

  feedForward(graph, name, x) {
    return this.linear(graph, `${name}.down`, relu(graph, this.linear(graph, `${name}.up`, x)));
  }

  embed(graph, batch, offset = 0) {
    const { d_model, max_len } = this.config;
    if (offset + batch.shape[1] > max_len)
      throw new RangeError(`the text is longer than ${max_len} tokens`);
    return embed(
      graph,
      batch,
      this.weights["embedding.tokens.weight"],
      d_model ** 0.5,
      this.positions,
      offset,
    );
  }

  logits(graph, x) {
    return linear(graph, x, this.weights["embedding.tokens.weight"]);
  }

  real({ ids }) {
    return ids.map((id) => Number(id !== PAD));
  }

  encode(graph, source) {
    const real = this.real(source);
    let x = this.embed(graph, source);
    for (let i = 0; i < this.config.n_layers; i++) {
      const name = `encoder.layers.${i}`;
      x = this.residual(graph, `${name}.attention_residual`, x, (y) =>
        this.attend(graph, `${name}.self_attention`, y, null, { real }),
      );
      x = this.residual(graph, `${name}.feed_forward_residual`, x, (y) =>
        this.feedForward(graph, `${name}.feed_forward`, y),
      );
    }
    return this.config.pre_norm ? this.norm(graph, "encoder.norm", x) : x;
  }

  decode(graph, x, memory, { real = null, memoryReal, caches = [] }) {
    const { causal } = this.switches;
    for (let i = 0; i < this.config.n_layers; i++) {
      const name = `decoder.layers.${i}`;
      x = this.residual(graph, `${name}.self_residual`, x, (y) =>
        this.attend(graph, `${name}.self_attention`, y, null, {
          real,
          causal,
          cache: caches[i]?.self,
        }),
      );
      x = this.residual(graph, `${name}.cross_residual`, x, (y) =>
        this.attend(graph, `${name}.cross_attention`, y, memory, {
          real: memoryReal,
          cache: caches[i]?.cross,
        }),
      );
      x = this.residual(graph, `${name}.feed_forward_residual`, x, (y) =>
        this.feedForward(graph, `${name}.feed_forward`, y),
      );
    }
    return this.config.pre_norm ? this.norm(graph, "decoder.norm", x) : x;
  }

  /** Logits (B, T, V) for a target (B, T) that begins with <bos>. */
  forward(graph, source, target) {
    const x = this.decode(graph, this.embed(graph, target), this.encode(graph, source), {
      real: this.real(target),
      memoryReal: this.real(source),
    });
    return this.logits(graph, x);
  }
}
