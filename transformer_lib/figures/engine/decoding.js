// Greedy search with a cache: one token after another, each the most probable one.
import { columns } from "./attention.js";
import { Graph } from "./graph.js";
import { Tensor } from "./memory.js";
import { BOS, EOS } from "./transformer.js";

/** The keys and values of one self-attention, for up to `room` positions: (B, room, 2 d). */
class Cache {
  constructor(memory, rows, room, d) {
    Object.assign(this, { d, length: 0, both: new Tensor(memory, [rows, room, 2 * d], false) });
  }

  /** Adds the keys and values of `all`, (B, 1, 3 d); returns all keys, all values, and their number. */
  append(all) {
    const {
      d,
      both: {
        data,
        shape: [, room],
      },
    } = this;
    const [b, , width] = all.shape;
    if (this.length === room) throw new RangeError(`the cache has room for ${room} tokens`);
    for (let i = 0; i < b; i++)
      data.set(all.data.subarray(i * width + d, (i + 1) * width), (i * room + this.length) * 2 * d);
    this.length += 1;
    return [columns(this.both, 0), columns(this.both, d), this.length];
  }
}

/**
 * What a decoder keeps between two tokens: the encoder's output, and a cache for each layer. It takes room in the
 * model's memory, which the caller frees (`memory.within`).
 */
export class State {
  constructor(model, source, room) {
    const {
      memory,
      config: { d_model: d, n_layers },
    } = model;
    const graph = new Graph(memory, { learn: false });
    Object.assign(this, { model, length: 0 });
    this.memory = model.encode(graph, source);
    this.memoryReal = model.real(source);
    this.caches = Array.from({ length: n_layers }, (_, i) => {
      const name = `decoder.layers.${i}.cross_attention.in_proj`;
      const both = model.linear(graph, name, this.memory, d, 3 * d); // computed once, for all steps
      return { self: new Cache(memory, source.shape[0], room, d), cross: { both } };
    });
  }

  /** The logits (B, V) after a new token in each row. */
  step(tokens, record = null) {
    const { model, memory, memoryReal, caches } = this;
    return model.memory.within(() => {
      const graph = new Graph(model.memory, { learn: false, record });
      const batch = { ids: Int32Array.from(tokens), shape: [tokens.length, 1] };
      const x = model.decode(graph, model.embed(graph, batch, this.length), memory, {
        memoryReal,
        caches,
      });
      this.length += 1;
      const { data, shape } = model.logits(graph, x);
      return tokens.map((_, i) => data.slice(i * shape[2], (i + 1) * shape[2]));
    });
  }
}

export function softmax(logits) {
  const top = logits.reduce((x, y) => Math.max(x, y));
  const powers = logits.map((x) => Math.exp(x - top));
  const total = powers.reduce((x, y) => x + y);
  return powers.map((x) => x / total);
}

/**
 * Writes up to `most` tokens for each source, until all have ended; each step yields [{ id, probabilities }], one for
 * each row. What a row has after its <eos> means nothing. The caller frees the memory.
 */
export function* greedy(model, source, most) {
  const state = new State(model, source, most);
  let tokens = Array(source.shape[0]).fill(BOS);
  const ended = tokens.map(() => false);
  for (let step = 0; step < most && !ended.every(Boolean); step++) {
    const said = state.step(tokens).map((logits, row) => {
      const probabilities = softmax(logits);
      const id = probabilities.indexOf(Math.max(...probabilities));
      ended[row] ||= id === EOS;
      return { id, probabilities };
    });
    yield said;
    tokens = said.map(({ id }) => id);
  }
}
