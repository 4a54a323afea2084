// Layer norm: shifts every vector to a mean of 0 and makes all equally long, then scales and shifts by learned numbers.

const EPS = 1e-5;

/** y = (x - mean) / sqrt(variance + eps) * weight + bias for each vector. */
export function norm(graph, x, weight, bias) {
  const [d, rows] = [weight.size, x.size / weight.size];
  const y = graph.tensor(...x.shape);
  const scales = new Float32Array(rows); // 1 / sqrt(variance + eps)
  const normed = new Float32Array(graph.learn ? x.size : d);
  for (let row = 0; row < rows; row++) {
    const [at, keep] = [row * d, graph.learn ? row * d : 0];
    let [mean, variance] = [0, 0];
    for (let j = 0; j < d; j++) mean += x.data[at + j];
    mean /= d;
    for (let j = 0; j < d; j++) variance += (x.data[at + j] - mean) ** 2;
    scales[row] = 1 / Math.sqrt(variance / d + EPS);
    for (let j = 0; j < d; j++) {
      normed[keep + j] = (x.data[at + j] - mean) * scales[row];
      y.data[at + j] = normed[keep + j] * weight.data[j] + bias.data[j];
    }
  }
  graph.then(() => {
    for (let row = 0; row < rows; row++) {
      const at = row * d;
      let [mean, along] = [0, 0]; // the parts of the gradient that only shift x or only make it longer
      for (let j = 0; j < d; j++) {
        const g = y.grad[at + j];
        weight.grad[j] += g * normed[at + j];
        bias.grad[j] += g;
        mean += g * weight.data[j];
        along += g * weight.data[j] * normed[at + j];
      }
      for (let j = 0; j < d; j++) {
        x.grad[at + j] +=
          scales[row] * (y.grad[at + j] * weight.data[j] - (mean + normed[at + j] * along) / d);
      }
    }
  });
  return y;
}
