// Times the engine of the live figures for engine.py: one line of JSON in, one out. Processor time, not the clock's.
import { readFileSync } from "node:fs";

const { engine, wasm, rounds, products, models } = JSON.parse(readFileSync(0, "utf-8"));
const m = await import(engine);

const now = () => {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1e6;
};
const median = (list) => list.sort((x, y) => x - y)[Math.floor(list.length / 2)];
function seconds(run, times) {
  run();
  run();
  return median(
    Array.from({ length: rounds }, () => {
      const start = now();
      for (let i = 0; i < times; i++) run();
      return (now() - start) / times;
    }),
  );
}

const result = { wasm: new m.Memory({ megabytes: 1, wasm }).wasm, products: [], models: {} };
for (const [rows, n, k, transposed] of products) {
  const memory = new m.Memory({ wasm });
  const [a, b, c] = [rows * k, k * n, rows * n].map((size) => memory.take(size));
  const next = m.uniform(1);
  for (let i = a; i < c; i++) memory.floats[i] = next() - 0.5;
  const work = 2 * rows * n * k;
  const run = () => memory.product(rows, n, k, a, k, 1, b, ...(transposed ? [1, k] : [n, 1]), c, n);
  result.products.push(work / seconds(run, Math.ceil((wasm ? 2e8 : 4e7) / work)) / 1e9);
}
for (const [name, { config, weights, batch, sentence, tokens, most, times }] of Object.entries(
  models,
)) {
  const model = new m.Transformer(new m.Memory({ megabytes: 1024, wasm }), config, weights);
  const adam = new m.Adam(Object.values(model.weights));
  const ids = Object.fromEntries(Object.entries(batch).map(([part, rows]) => [part, m.pad(rows)]));
  const step = () =>
    m.trainStep(model, adam, ids, { rate: 1e-4, label_smoothing: 0.1, clip_norm: 1 });
  const write = () =>
    model.memory.within(() => [...m.greedy(model, { source: m.pad([sentence]), most })]);
  result.models[name] = { train: tokens / seconds(step, times), greedy: most / seconds(write, 2) };
}
console.log(JSON.stringify(result));
