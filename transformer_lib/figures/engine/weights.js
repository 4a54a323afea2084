// Names and shapes of a model's weights, as in the library's state_dict, and their initial values.

const matrix = (name, out, into) => [
  [`${name}.weight`, [out, into]],
  [`${name}.bias`, [out]],
];

const norm = (name, d) => [
  [`${name}.weight`, [d]],
  [`${name}.bias`, [d]],
];

function layerShapes(name, { d_model: d, d_ff }, attentions, residuals) {
  return [
    ...attentions.flatMap((part) => [
      ...matrix(`${name}.${part}_attention.in_proj`, 3 * d, d),
      ...matrix(`${name}.${part}_attention.out_proj`, d, d),
    ]),
    ...matrix(`${name}.feed_forward.up`, d_ff, d),
    ...matrix(`${name}.feed_forward.down`, d, d_ff),
    ...residuals.flatMap((part) => norm(`${name}.${part}_residual.norm`, d)),
  ];
}

function stackShapes(name, config, ...parts) {
  const layers = Array.from({ length: config.n_layers }, (_, i) =>
    layerShapes(`${name}.layers.${i}`, config, ...parts),
  );
  return [...layers.flat(), ...(config.pre_norm ? norm(`${name}.norm`, config.d_model) : [])];
}

/** [name, shape] of every weight. */
export function weightShapes(config) {
  const { d_model: d, vocab_size, max_len, positions } = config;
  return [
    ["embedding.tokens.weight", [vocab_size, d]],
    ...(positions === "learned" ? [["embedding.positions.table", [max_len, d]]] : []),
    ...stackShapes("encoder", config, ["self"], ["attention", "feed_forward"]),
    ...stackShapes("decoder", config, ["self", "cross"], ["self", "cross", "feed_forward"]),
  ];
}

/** A generator of numbers between 0 and 1, the same for the same seed (mulberry32). */
export function uniform(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let z = Math.imul(state ^ (state >>> 15), state | 1);
    z ^= z + Math.imul(z ^ (z >>> 7), z | 61);
    return ((z ^ (z >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** Initial values, drawn as the library draws them: { name, shape, data } for each weight. */
export function firstWeights(config, seed) {
  const next = uniform(seed);
  const normal = () => Math.sqrt(-2 * Math.log(1 - next())) * Math.cos(2 * Math.PI * next());
  return weightShapes(config).map(([name, shape]) => {
    const [out, into] = [name.includes("in_proj") ? shape[0] / 3 : shape[0], shape[1]];
    const limit = Math.sqrt(6 / (out + into)); // queries, keys and values are three separate matrices here
    const draw =
      name === "embedding.positions.table"
        ? () => 0.02 * normal()
        : name.startsWith("embedding.")
          ? () => normal() * config.d_model ** -0.5
          : name.includes("norm")
            ? () => (name.endsWith("weight") ? 1 : 0)
            : shape.length === 2
              ? () => limit * (2 * next() - 1)
              : () => 0;
    return {
      name,
      shape,
      data: Float32Array.from({ length: shape.reduce((x, y) => x * y) }, draw),
    };
  });
}
