// The graph of the computation, through which gradients flow back, and the operations that don't have their own file.
import { Tensor } from "./memory.js";

/**
 * Each operation computes its result and adds a function that passes the result's gradient on to its inputs.
 * `learn: false` keeps none of them; `record(name, weights, shape)` gets the weights of each attention.
 */
export class Graph {
  constructor(memory, { learn = true, record = null } = {}) {
    Object.assign(this, { memory, learn, record, steps: [] });
  }

  tensor(...shape) {
    return new Tensor(this.memory, shape, this.learn);
  }

  then(back) {
    if (this.learn) this.steps.push(back);
  }

  backward() {
    while (this.steps.length) this.steps.pop()();
  }
}

/** y = x Wᵀ + b, with rows `from` to `to` of W and b. */
export function linear(graph, x, weight, bias = null, from = 0, to = weight.shape[0]) {
  const [n, k] = [to - from, weight.shape[1]];
  const [m, w, { memory }] = [x.size / k, weight.at + from * k, graph];
  const y = graph.tensor(...x.shape.slice(0, -1), n); // (..., n)
  if (bias) for (let i = 0; i < m; i++) y.data.set(bias.data.subarray(from, to), i * n);
  memory.product(m, n, k, x.at, k, 1, w, 1, k, y.at, n);
  graph.then(() => {
    memory.product(m, k, n, y.gradAt, n, 1, w, k, 1, x.gradAt, k); // dx = dy W
    memory.product(n, k, m, y.gradAt, 1, n, x.at, k, 1, weight.gradAt + from * k, k); // dW = dyᵀ x
    if (bias)
      for (let i = 0; i < m; i++)
        for (let j = 0; j < n; j++) bias.grad[from + j] += y.grad[i * n + j];
  });
  return y;
}

export function relu(graph, x) {
  const y = graph.tensor(...x.shape);
  for (let i = 0; i < x.size; i++) y.data[i] = x.data[i] > 0 ? x.data[i] : 0;
  graph.then(() => {
    for (let i = 0; i < x.size; i++) if (x.data[i] > 0) x.grad[i] += y.grad[i];
  });
  return y;
}

export function add(graph, x, y) {
  const sum = graph.tensor(...x.shape);
  for (let i = 0; i < x.size; i++) sum.data[i] = x.data[i] + y.data[i];
  graph.then(() => {
    for (let i = 0; i < x.size; i++) {
      x.grad[i] += sum.grad[i];
      y.grad[i] += sum.grad[i];
    }
  });
  return sum;
}

/** Embeddings (B, T, d) of ids (B, T), times a factor, plus the vectors of their positions. */
export function embed(graph, { ids, shape: [b, t] }, table, factor, positions, offset = 0) {
  const d = table.shape[1];
  const x = graph.tensor(b, t, d);
  const each = (visit) => {
    for (let i = 0; i < b * t; i++) visit(i * d, ids[i] * d, (offset + (i % t)) * d);
  };
  each((to, token, place) => {
    for (let j = 0; j < d; j++)
      x.data[to + j] = factor * table.data[token + j] + (positions ? positions.data[place + j] : 0);
  });
  graph.then(() =>
    each((to, token, place) => {
      for (let j = 0; j < d; j++) table.grad[token + j] += factor * x.grad[to + j];
      if (positions?.grad) for (let j = 0; j < d; j++) positions.grad[place + j] += x.grad[to + j];
    }),
  );
  return x;
}

/** The paper's sinusoidal table, (length, d): sines in the even columns, cosines in the odd ones. */
export function sinusoidalPositions(memory, length, d) {
  const table = new Tensor(memory, [length, d], false);
  for (let i = 0; i < table.size; i++) {
    const [position, column] = [Math.floor(i / d), i % d];
    const angle = position / 10000 ** ((column - (column % 2)) / d);
    table.data[i] = column % 2 ? Math.cos(angle) : Math.sin(angle);
  }
  return table;
}
