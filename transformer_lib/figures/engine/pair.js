// Two runs with the same initial weights on the same words: a complete one, and one without what a reader turns off.

/** Settings that both share. `deep` has the norm after the sum, as in the paper; its rate needs the warm-up. */
export const BASES = {
  small: { d_model: 32, n_heads: 4, pre_norm: true, peak: 0.007 },
  wide: { d_model: 64, n_heads: 2, pre_norm: true, peak: 0.007 },
  deep: { d_model: 32, n_heads: 4, n_layers: 2, pre_norm: false, peak: 0.015 },
};
const POSITIONS = { waves: "sinusoidal", learned: "learned", none: "none" };
export const WHOLE = {
  scale: true,
  causal: true,
  residual: true,
  several: true,
  order: true,
  warmup: true,
  positions: "waves",
  rate: 1,
  smoothing: 0,
};

/** What the second run does differently, in words. */
export const changes = (state) =>
  Object.entries({
    "no scale": !state.scale,
    "no causal mask": !state.causal,
    "no residual": !state.residual,
    "no positions": state.positions === "none",
    "learned positions": state.positions === "learned",
    "one head": !state.several,
    "no warm-up": !state.warmup,
    [BASES[state.base].pre_norm ? "norm after" : "norm first"]: !state.order,
    [`rate × ${Number(state.rate.toPrecision(2))}`]: state.rate !== 1,
    [`smoothing ${state.smoothing.toFixed(2)}`]: state.smoothing > 0,
  })
    .filter(([, is]) => is)
    .map(([name]) => name);

/** The settings and switches of the first run, and of the second one if it differs. */
export function runsOf(state) {
  const first = { task: state.task, seed: state.seed, ...BASES[state.base] };
  const second = {
    ...first,
    n_heads: state.several ? first.n_heads : 1,
    pre_norm: state.order === first.pre_norm,
    climb: state.warmup,
    positions: POSITIONS[state.positions],
    peak: first.peak * state.rate,
    label_smoothing: state.smoothing,
  };
  const { scale, causal, residual } = state;
  const runs = [
    { settings: first, switches: {} },
    { settings: second, switches: { scale, causal, residual } },
  ];
  return changes(state).length ? runs : runs.slice(0, 1);
}

/** How the second run compares with the first: each { loss, exact }. Null until the first has learned the task. */
export function outcome([first, second]) {
  if (!second || first.exact < 0.6) return null;
  if (second.exact >= first.exact - 0.1) return "same";
  return second.exact > 0.1 ? "worse" : second.loss < 0.3 ? "blind" : "none";
}
