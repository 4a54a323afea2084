// Attention: softmax(Q Kᵀ / sqrt(d_head)) V, for every sequence of the batch and every head.

/** The columns of a (B, T, width) tensor that start at `column`: its queries, keys or values. */
export const columns = (tensor, column, [, length, width] = tensor.shape) => ({
  at: tensor.at + column,
  gradAt: tensor.gradAt + column,
  row: width,
  text: length * width,
});

/** The weights of one query, in place: softmax over the keys it may attend to, or zeros if there are none. */
function softmax(scores, at, n, seen) {
  let [top, total] = [-Infinity, 0];
  for (let j = 0; j < n; j++) if (seen(j) && scores[at + j] > top) top = scores[at + j];
  for (let j = 0; j < n; j++) {
    scores[at + j] = seen(j) ? Math.exp(scores[at + j] - top) : 0;
    total += scores[at + j];
  }
  if (total > 0) for (let j = 0; j < n; j++) scores[at + j] /= total;
}

/**
 * T queries of each sequence attend to S keys and values, with `heads` heads of width d. `real` (B * S numbers) is
 * 0 for keys to ignore. With `causal`, a query ignores later keys too; the queries are then the last T positions.
 * Returns (B, T, heads * d).
 */
export function attention(
  graph,
  {
    query,
    key,
    value,
    b,
    t,
    s,
    heads,
    d,
    real = null,
    causal = false,
    scale = d ** -0.5,
    name = "",
  },
) {
  const { memory } = graph;
  const mixed = graph.tensor(b, t, heads * d);
  const out = columns(mixed, 0);
  const weights = memory.take(b * heads * t * s); // (B, H, T, S)
  const each = (visit) => {
    for (let i = 0; i < b; i++) {
      for (let head = 0; head < heads; head++) {
        const place = (part, at = part.at) => at + i * part.text + head * d;
        visit(weights + (i * heads + head) * t * s, place, i);
      }
    }
  };
  const { floats } = memory;
  each((w, place, text) => {
    memory.product(t, s, d, place(query), query.row, 1, place(key), 1, key.row, w, s); // Q Kᵀ
    for (let i = 0; i < t * s; i++) floats[w + i] *= scale;
    for (let i = 0; i < t; i++) {
      const end = causal ? s - t + i : s;
      softmax(floats, w + i * s, s, (j) => j <= end && (!real || real[text * s + j]));
    }
    memory.product(t, d, s, w, s, 1, place(value), value.row, 1, place(out), out.row);
  });
  graph.record?.(name, floats.slice(weights, weights + b * heads * t * s), [b, heads, t, s]);
  graph.then(() =>
    each((w, place) =>
      memory.within(() => {
        const back = (part) => place(part, part.gradAt);
        memory.product(s, d, t, w, 1, s, back(out), out.row, 1, back(value), value.row); // dV = Wᵀ dO
        const g = memory.take(t * s);
        memory.product(t, s, d, back(out), out.row, 1, place(value), 1, value.row, g, s); // dW = dO Vᵀ
        for (let i = 0; i < t * s; i += s) {
          // back through the softmax: dS = W * (dW - sum of W * dW)
          let along = 0;
          for (let j = i; j < i + s; j++) along += floats[w + j] * floats[g + j];
          for (let j = i; j < i + s; j++)
            floats[g + j] = scale * floats[w + j] * (floats[g + j] - along);
        }
        memory.product(t, d, s, g, s, 1, place(key), key.row, 1, back(query), query.row); // dQ = dS K
        memory.product(s, d, t, g, 1, s, place(query), query.row, 1, back(key), key.row); // dK = dSᵀ Q
      }),
    ),
  );
  return mixed;
}
