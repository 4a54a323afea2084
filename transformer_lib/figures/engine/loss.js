// Cross-entropy with label smoothing.
import { PAD } from "./transformer.js";

/**
 * Returns the loss summed over all labels that aren't padding, their number, and how many the model got right.
 * Logits are (..., V). The gradient that flows back is the mean's.
 */
export function crossEntropy(graph, logits, { ids }, label_smoothing = 0) {
  const size = logits.shape.at(-1);
  const p = new Float32Array(logits.size); // the softmax
  const spread = label_smoothing / size;
  let [total, count, right] = [0, 0, 0];
  ids.forEach((label, i) => {
    if (label === PAD) return;
    const row = logits.data.subarray(i * size, (i + 1) * size);
    let [top, best, sum, all] = [-Infinity, 0, 0, 0];
    for (let j = 0; j < size; j++) if (row[j] > top) [top, best] = [row[j], j];
    for (let j = 0; j < size; j++) {
      p[i * size + j] = Math.exp(row[j] - top);
      sum += p[i * size + j];
      all += row[j];
    }
    for (let j = 0; j < size; j++) p[i * size + j] /= sum;
    const log = Math.log(sum) + top; // so that log p(j) = logit j - log
    total += log - (1 - label_smoothing) * row[label] - spread * all;
    count += 1;
    right += best === label;
  });
  graph.then(() =>
    ids.forEach((label, i) => {
      if (label === PAD) return;
      for (let j = i * size; j < (i + 1) * size; j++) logits.grad[j] += (p[j] - spread) / count;
      logits.grad[i * size + label] -= (1 - label_smoothing) / count;
    }),
  );
  return { total, count, right, mean: total / Math.max(1, count) };
}
