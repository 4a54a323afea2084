// Greedy search with a cache: one token after another, each the most probable one.
import { columns } from "./attention.js";
import { Graph } from "./graph.js";
import { Tensor } from "./memory.js";

/** The keys and values of one self-attention, for up to `room` positions: (B, room, 2 d). */
class Cache {
  constructor(memory, rows, room, d) {
    Object.assign(this, { d, length: 0, both: new Tensor(memory, [rows, room, 2 * d], false) });
  }

  /** Adds the keys and values of `all`, (B, T, 3 d); returns all keys, all values, and their number. */
  append(all) {
    const {
      d,
      both: {
        data,
        shape: [, room],
      },
    } = this;
    const [b, t, width] = all.shape;
    if (this.length + t > room) throw new RangeError(`the cache has room for ${room} tokens`);
    for (let i = 0; i < b * t; i++) {
      const to = Math.floor(i / t) * room + this.length + (i % t);
      data.set(all.data.subarray(i * width + d, (i + 1) * width), to * 2 * d);
    }
    this.length += t;
    return [columns(this.both, 0), columns(this.both, d), this.length];
  }
}

/**
 * What a decoder keeps between two tokens: the encoder's output, and a cache for each layer. It takes room in the
 * model's memory, which the caller frees (`memory.within`).
 */
export class State {
  constructor(model, { source = null, rows = source.shape[0], room, record = null }) {
    const {
      memory,
      config: { d_model, n_layers, n_decoder_layers },
    } = model;
    Object.assign(this, { model, rows, length: 0 });
    this.memory = source && model.encode(new Graph(memory, { learn: false, record }), source);
    this.memoryReal = source && model.real(source);
    this.caches = Array.from({ length: n_decoder_layers ?? n_layers }, () => ({
      self: new Cache(memory, rows, room, d_model),
      cross: source && { both: null },
    }));
    if (!source) return;
    const graph = new Graph(memory, { learn: false });
    this.caches.forEach(({ cross }, i) => {
      // computed once, for all steps
      cross.both = model.linear(
        graph,
        `decoder.layers.${i}.cross_attention.in_proj`,
        this.memory,
        d_model,
        3 * d_model,
      );
    });
  }

  /** The logits (B, V) after one or more new tokens in each row. */
  step(batch, record = null) {
    const { model, memory, memoryReal, caches } = this;
    return model.memory.within(() => {
      const graph = new Graph(model.memory, { learn: false, record });
      const x = model.decode(graph, model.embed(graph, batch, this.length), memory, {
        memoryReal,
        caches,
      });
      const [b, t] = batch.shape;
      this.length += t;
      const { data, shape } = model.logits(graph, x);
      return Array.from({ length: b }, (_, i) =>
        data.slice(((i + 1) * t - 1) * shape[2], (i + 1) * t * shape[2]),
      );
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
 * Writes up to `most` tokens after `prompt` (B, T), or after <bos>; each step yields [{ id, probabilities }], one for
 * each row. A row that has ended continues with padding. The caller frees the memory.
 */
export function* greedy(model, { source = null, prompt = null, most, record = null }) {
  const { bos_id = 1, eos_id = 2, pad_id = 0 } = model.config;
  const rows = (source ?? prompt).shape[0];
  let batch = prompt ?? { ids: new Int32Array(rows).fill(bos_id), shape: [rows, 1] };
  const state = new State(model, { source, rows, room: batch.shape[1] + most, record });
  const ended = Array(rows).fill(false);
  for (let step = 0; step < most && !ended.every(Boolean); step++) {
    const said = state.step(batch, record).map((logits, row) => {
      const probabilities = softmax(logits);
      const id = ended[row] ? pad_id : probabilities.indexOf(Math.max(...probabilities));
      ended[row] ||= id === eos_id;
      return { id, probabilities };
    });
    yield said;
    batch = { ids: Int32Array.from(said, ({ id }) => id), shape: [rows, 1] };
  }
}
