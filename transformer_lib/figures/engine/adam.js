// Adam, gradient clipping, the learning rate schedule, and one training step.
import { Graph } from "./graph.js";
import { crossEntropy } from "./loss.js";

export class Adam {
  constructor(tensors, { betas = [0.9, 0.98], eps = 1e-9 } = {}) {
    Object.assign(this, { tensors, betas, eps, count: 0 });
    this.means = tensors.map(({ size }) => [new Float32Array(size), new Float32Array(size)]);
  }

  step(rate) {
    const [slow, slower] = this.betas;
    this.count += 1;
    const size = rate / (1 - slow ** this.count); // both means start at 0: correct for that
    const spread = 1 / Math.sqrt(1 - slower ** this.count);
    this.tensors.forEach(({ data, grad }, which) => {
      const [mean, square] = this.means[which];
      for (let i = 0; i < data.length; i++) {
        mean[i] = slow * mean[i] + (1 - slow) * grad[i];
        square[i] = slower * square[i] + (1 - slower) * grad[i] ** 2;
        data[i] -= (size * mean[i]) / (Math.sqrt(square[i]) * spread + this.eps);
      }
    });
  }
}

/** Clips the norm of all gradients together to at most `longest`; returns the norm they had. */
export function clipNorm(tensors, longest) {
  let sum = 0;
  for (const { grad } of tensors) for (let i = 0; i < grad.length; i++) sum += grad[i] ** 2;
  const length = Math.sqrt(sum);
  if (length > longest) {
    const factor = longest / (length + 1e-6);
    for (const { grad } of tensors) for (let i = 0; i < grad.length; i++) grad[i] *= factor;
  }
  return length;
}

/** The rate rises in a straight line for `warmup` steps, then falls as 1 / sqrt(step); the first step is 1. */
export const inverseSqrt = (step, { warmup, peak }) =>
  peak * Math.min(step / warmup, Math.sqrt(warmup / step));

/** Forward, loss, backward, Adam. Returns the loss. */
export function trainStep(
  model,
  adam,
  { source, target, labels },
  { rate, label_smoothing = 0, clip_norm = Infinity },
) {
  return model.memory.within(() => {
    const graph = new Graph(model.memory);
    for (const { grad } of adam.tensors) grad.fill(0);
    const logits = model.forward(graph, source, target);
    const loss = crossEntropy(graph, logits, labels, label_smoothing);
    graph.backward();
    if (clip_norm < Infinity) clipNorm(adam.tensors, clip_norm);
    adam.step(rate);
    return loss;
  });
}
