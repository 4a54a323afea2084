// The trained translator: token by token, with probabilities and the weights of every cross-attention head.
import { beamSearch } from "./beam.js";
import { State, softmax } from "./decoding.js";
import { Memory } from "./memory.js";
import { fromBase64, fromRounded } from "./rounded.js";
import { BOS, EOS, Transformer, pad } from "./transformer.js";

export class Translator {
  /** `text`: { config, weights }. */
  constructor(text) {
    const { config, weights } = JSON.parse(text);
    const tensors = fromRounded(fromBase64(weights));
    const numbers = tensors.reduce((count, { data }) => count + data.length, 0);
    // a parameter takes 4 bytes, its gradient another 4
    this.memory = new Memory({ megabytes: Math.ceil((8 * numbers) / 2 ** 20) + 18 });
    this.model = new Transformer(this.memory, config, tensors);
    this.rest = this.memory.top;
  }

  /** Writes up to `most` tokens for a list of ids. Yields null while it searches, then each { id, p, heads }, heads (L H, S). */
  *write(source, { most, beam = 1 }) {
    this.memory.top = this.rest; // drops an unfinished translation
    let ids = null;
    if (beam > 1) {
      const search = beamSearch(this.model, source, { most, beam_size: beam });
      let step = search.next();
      for (; !step.done; step = search.next()) yield null;
      [{ ids }] = step.value;
      this.memory.top = this.rest;
    }
    const state = new State(this.model, pad([source]), most);
    let id = BOS;
    for (let step = 0; step < (ids?.length ?? most) && id !== EOS; step++) {
      const heads = [];
      const record = (name, weights, [, h, , s]) => {
        if (name.includes("cross"))
          for (let i = 0; i < h; i++) heads.push(Array.from(weights.slice(i * s, (i + 1) * s)));
      };
      const [logits] = state.step([id], record);
      const probabilities = softmax(logits);
      id = ids ? ids[step] : probabilities.indexOf(Math.max(...probabilities));
      yield { id, p: probabilities[id], heads };
    }
  }
}
