// A training run that a page can watch: one step, the share of right answers, what it writes, its attention weights.
import { Adam, inverseSqrt, trainStep } from "./adam.js";
import { greedy } from "./decoding.js";
import { Graph } from "./graph.js";
import { Memory } from "./memory.js";
import { TASKS, decode, encode, vocabSize } from "./tasks.js";
import { BOS, EOS, Transformer, pad } from "./transformer.js";
import { firstWeights, uniform } from "./weights.js";

const MODEL = {
  d_model: 32,
  n_heads: 4,
  n_layers: 1,
  d_ff: 64,
  max_len: 32,
  positions: "sinusoidal",
  pre_norm: true,
};
const SETTINGS = {
  task: "reverse",
  seed: 0,
  batch_size: 32,
  peak: 0.007,
  warmup: 50,
  climb: true,
  label_smoothing: 0,
  clip_norm: 1,
};

export class TrainingRun {
  /** `settings` override those above, the model's too; `switches` turn parts of the model off. */
  constructor(settings = {}, switches = {}) {
    this.settings = { ...SETTINGS, ...settings };
    const { task, seed } = this.settings;
    this.task = TASKS[task];
    const changes = Object.fromEntries(Object.entries(settings).filter(([name]) => name in MODEL));
    const config = { ...MODEL, vocab_size: vocabSize(this.task), ...changes };
    this.model = new Transformer(
      new Memory({ megabytes: 32 }),
      config,
      firstWeights(config, seed),
      switches,
    );
    this.adam = new Adam(Object.values(this.model.weights));
    this.draw = uniform(seed + 1);
    this.steps = 0;
  }

  get parameters() {
    return Object.values(this.model.weights).reduce((sum, { size }) => sum + size, 0);
  }

  /** The ids of the sources, of the decoder's inputs, and of the labels. */
  batch(texts) {
    const answers = texts.map((text) => encode(this.task, this.task.answer(text)));
    return {
      source: pad(texts.map((text) => encode(this.task, text))),
      target: pad(answers.map((ids) => [BOS, ...ids])),
      labels: pad(answers.map((ids) => [...ids, EOS])),
    };
  }

  /** One update; returns the loss per token and the share of tokens that were right. */
  step() {
    const { batch_size, peak, warmup, climb, label_smoothing, clip_norm } = this.settings;
    this.steps += 1;
    const texts = Array.from({ length: batch_size }, () => this.task.train(this.draw));
    const rate = inverseSqrt(climb ? this.steps : Math.max(this.steps, warmup), { warmup, peak });
    const { mean, right, count } = trainStep(this.model, this.adam, this.batch(texts), {
      rate,
      label_smoothing,
      clip_norm,
    });
    return { step: this.steps, rate, loss: mean, right: right / count };
  }

  /** What the model writes for each text, by greedy search. */
  write(texts) {
    const { memory } = this.model;
    const ids = texts.map(() => []);
    memory.within(() => {
      const source = pad(texts.map((text) => encode(this.task, text)));
      for (const rows of greedy(this.model, source, this.task.longest + 2))
        rows.forEach(({ id }, i) => ids[i].push(id));
    });
    return ids.map((row) => decode(this.task, row));
  }

  /** The share of `n` texts, always the same ones, that the model gets completely right. */
  exact(n = 100) {
    const next = uniform(12345);
    const texts = Array.from({ length: n }, () => this.task.test(next));
    return this.write(texts).filter((text, i) => text === this.task.answer(texts[i])).length / n;
  }

  /** What the model writes for a text, and the weights (H, T, S) of every attention under teacher forcing. */
  look(text) {
    const { model, task } = this;
    const [written] = this.write([text]);
    const maps = {};
    model.memory.within(() => {
      const record = (name, weights, [, ...shape]) => {
        maps[name] = { weights, shape };
      };
      const { source, target } = this.batch([text]);
      model.forward(new Graph(model.memory, { learn: false, record }), source, target);
    });
    return { written, answer: task.answer(text), maps };
  }
}

const rest = () =>
  new Promise((go) => {
    setTimeout(go);
  });

/** The commands of a figure's Worker: `serve(trainingCommands())`. Its runs take steps in turn. */
export function trainingCommands() {
  let [runs, turn] = [[], 0];
  return {
    /** Replaces all runs; `list` holds the { settings, switches } of each new one. */
    make(list) {
      turn += 1;
      runs = list.map(({ settings, switches }) => new TrainingRun(settings, switches));
      return runs.map(({ parameters }) => ({ parameters }));
    },
    /** Trains until `steps` are done or `pause` is called (it takes effect between two steps), and reports each step. */
    async train({ steps }, tell) {
      turn += 1;
      const mine = turn;
      for (let i = 0; i < steps && turn === mine; i++) {
        tell(runs.map((run) => run.step()));
        await rest();
      }
      return runs.map((run) => run.steps);
    },
    pause() {
      turn += 1;
    },
    exact: ({ n }) => runs.map((run) => run.exact(n)),
    look: ({ text }) => runs.map((run) => run.look(text)),
  };
}
