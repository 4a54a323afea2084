// ScheduleExplorer: why rise before falling? The paper's learning rate next to a constant one and a cosine.
import {
  axes,
  canvas,
  choice,
  clamp,
  draggable,
  fixed,
  fluid,
  html,
  live,
  longest,
  percent,
  pointIn,
  scale,
  set,
  slider,
  steps,
  svg,
  toggle,
} from "./kit.js";

// ---- arithmetic

/** The highest rate: the reader's, or the paper's, (d_model · warmup)^-0.5. */
export const peakOf = ({ height, d_model: d, warmup, peak }) =>
  height === "peak" ? peak : (d * warmup) ** -0.5;

/** "Attention Is All You Need", equation 3: rises in proportion to the step, then falls with its inverse square root. */
export const inverseSqrt = (step, { warmup, top }) =>
  top * Math.min(step / warmup, Math.sqrt(warmup / step));

/** The same rise, then half a cosine down to 0 at the last step. */
export const cosine = (step, { warmup, top, last }) =>
  step < warmup
    ? (top * step) / warmup
    : (top *
        (1 +
          Math.cos(
            (Math.PI * clamp(step - warmup, 0, last - warmup)) / Math.max(1, last - warmup),
          ))) /
      2;

/** A run's loss or rate at a step, interpolated between two records; null outside the run. */
export function runAt(run, step, what = "loss") {
  const column = what === "loss" ? 1 : 2;
  const i = run.findIndex(([at]) => at >= step);
  if (i < 0 || (i === 0 && run[0][0] > step)) return null;
  const [before, after] = [run[Math.max(0, i - 1)], run[i]];
  const share = before === after ? 1 : (step - before[0]) / (after[0] - before[0]);
  return before[column] + (after[column] - before[column]) * share;
}

/** Where a run first reached round losses: [step, loss], at most six. */
export function milestones(run) {
  if (!run.length) return [];
  const [first, best] = [run[0][1], Math.min(...run.map(([, loss]) => loss))];
  const size =
    [0.1, 0.2, 0.5, 1, 2, 5].find((s) => Math.floor(first / s) - Math.ceil(best / s) < 6) ?? 10;
  const levels = steps(7, Math.ceil(best / size))
    .map((n) => n * size)
    .filter((level) => level <= first);
  return levels.map((level) => [run.find(([, loss]) => loss <= level)[0], level]);
}

/** A round end for an axis that includes x, and the number of its parts. */
export function roundUp(
  x,
  ends = [
    [1, 5],
    [1.5, 3],
    [2, 4],
    [3, 3],
    [4, 4],
    [5, 5],
    [6, 3],
    [8, 4],
    [10, 5],
  ],
) {
  const ten = 10 ** Math.floor(Math.log10(x));
  const [end, parts] = ends.find(([n]) => n * ten >= x * 0.9999);
  return [end * ten, parts];
}

// ---- picture

const [HEIGHT, LEFT, TOP, BOTTOM] = [300, 62, 26, 262]; // heights are fixed; the width follows the column
const rate = (x) =>
  x < 1e-5
    ? x.toExponential(1).replace("-", "−")
    : x.toFixed(Math.max(0, 1 - Math.floor(Math.log10(x) + 1e-9)));
const power = (x) =>
  x < 9e-4 ? x.toExponential(0).replace("-", "−") : String(Number(x.toPrecision(1)));
const round = (n) => Math.round(n).toLocaleString("en-US");
const twoDigits = (x) => Number(x.toPrecision(2));
const SIZES = [64, 128, 256, 512, 1024, 2048];

function build({ get, change }) {
  const last = get("steps");
  const run = get("run").filter(([step]) => step <= last);
  const decades = (low, n) => ({
    last: n,
    read: (p) => twoDigits(low * 10 ** (p / 20)),
    find: (x) => 20 * Math.log10(x / low),
  });
  const height = choice({
    label: "height from",
    options: [
      ["d_model", "d_model"],
      ["peak", "own peak"],
    ],
    onInput: (value) =>
      change({
        height: value,
        peak: twoDigits(
          peakOf({ height: "d_model", d_model: get("d_model"), warmup: get("warmup") }),
        ),
      }),
  });
  const model = slider({
    label: "d_model",
    last: SIZES.length - 1,
    read: (p) => SIZES[p],
    show: String,
    find: (d) => Math.log2(d / 64),
    onInput: (value) => change({ d_model: value }),
  });
  const warmup = slider({
    label: "warm-up steps",
    ...decades(10, 60),
    show: round,
    onInput: (value) => change({ warmup: Math.min(value, last) }),
  });
  const peak = slider({
    label: "peak",
    ...decades(1e-5, 60),
    show: rate,
    onInput: (value) => change({ peak: value }),
  });
  const others = ["constant", "cosine"].map((name) =>
    toggle({ label: name, onInput: (on) => change({ [name]: on }) }),
  );
  const key = (name, text) =>
    html(
      "span",
      { class: `se-key se-${name}` },
      svg(
        "svg",
        { width: 30, height: 8, "aria-hidden": "true" },
        svg("line", { x1: 2, x2: 28, y1: 4, y2: 4, class: `se-line se-${name}` }),
      ),
      text,
    );
  others.forEach((other, i) => other.element.append(key(["constant", "cosine"][i], "")));
  const log = toggle({ label: "logarithmic axes", onInput: (on) => change({ logarithmic: on }) });

  let [x, y] = [null, null];
  let frame = svg("g");
  const lines = ["constant", "cosine", "paper"].map((name) =>
    svg("polyline", { class: `se-line se-${name}` }),
  );
  const top = svg(
    "g",
    {},
    svg("circle", { r: 4, class: "se-top" }),
    svg("text", { class: "lf-halo", y: -10 }),
  );
  const runTop = Math.max(0, ...run.map(([, , r]) => r));
  const topStep = run.find(([, , r]) => r === runTop)?.[0];
  const runLine = svg("polyline", { class: "se-line se-run" });
  const marks = milestones(run).map(([, loss]) =>
    svg(
      "g",
      {},
      svg("circle", { r: 4, class: "se-mark" }),
      svg("text", {
        class: "lf-halo",
        "text-anchor": "middle",
        text: fixed(loss, loss % 1 ? 1 : 0),
      }),
    ),
  );
  const line = svg("line", { y1: TOP, y2: BOTTOM, class: "se-cursor" });
  const picture = canvas(640, HEIGHT, {
    class: "lf-svg se-picture",
    role: "group",
    "aria-label": "learning rate by step",
  });
  // Arrow keys move the handle by pixels, which suits both kinds of axes.
  const handle = draggable(
    svg(
      "g",
      { "aria-label": "step" },
      svg("circle", { r: 18, class: "lf-touch" }),
      svg("circle", { r: 8, class: "lf-knob" }),
    ),
    {
      at: () => [x(get("step")), 0],
      to: (px, up) => change({ step: clamp(Math.round(x.invert(px + up)), 1, last) }),
      point: (event) => [pointIn(picture, event)[0], 0],
      step: 4,
      leap: 40,
    },
  );
  picture.append(frame, ...lines, runLine, line, ...marks, top, handle);
  const size = fluid(picture, HEIGHT, () => draw());

  function draw() {
    const state = Object.fromEntries(
      ["height", "d_model", "warmup", "peak"].map((name) => [name, get(name)]),
    );
    const shape = { warmup: state.warmup, top: peakOf(state), last };
    const curves = {
      constant: () => shape.top,
      cosine: (s) => cosine(s, shape),
      paper: (s) => inverseSqrt(s, shape),
    };
    const [wide, step, here] = [get("logarithmic"), get("step"), curves.paper(get("step"))];
    height.update(state.height);
    model.update(state.d_model);
    set(model.element, { hidden: state.height !== "d_model" });
    warmup.update(state.warmup);
    peak.update(shape.top);
    set(peak.element, { hidden: state.height !== "peak" });
    others.forEach((other, i) => other.update(get(["constant", "cosine"][i])));
    log.update(wide);

    const { width } = size;
    const right = width - 24;
    const [high, parts] = roundUp(
      Math.max(shape.top, runTop) * (wide ? 1.6 : 1.05), // room for the peak's words
      wide ? [[10]] : undefined,
    );
    const low = wide ? high / 1e4 : 0;
    x = scale([wide ? 1 : 0, last], [LEFT, right], wide);
    y = scale([low, high], [BOTTOM, TOP], wide);
    const [stride] = roundUp(last / (width / 90), [[1], [2], [5], [10]]);
    const digits = Math.max(0, -Math.floor(Math.log10(high / parts) + 1e-9));
    const fresh = axes({
      x,
      y,
      left: LEFT,
      right,
      top: TOP,
      bottom: BOTTOM,
      xLabel: "step",
      yLabel: "learning rate",
      xTicks: (wide ? steps(7).map((n) => 10 ** n) : steps(11).map((n) => n * stride))
        .filter((s) => s <= last)
        .map((s) => [s, round(s)]),
      yTicks: (wide
        ? steps(5).map((n) => high / 10 ** n)
        : steps(parts + 1).map((n) => (high * n) / parts)
      ).map((r) => [r, wide ? power(r) : r.toFixed(digits)]),
    });
    frame.replaceWith(fresh);
    frame = fresh;

    const grid = steps(Math.ceil((right - LEFT) / 2))
      .map((n) => x.invert(LEFT + 2 * n))
      .concat(shape.warmup, last)
      .map((s) => clamp(s, 1, last))
      .sort((a, b) => a - b);
    const up = (r) => y(Math.max(r, low));
    ["constant", "cosine", "paper"].forEach((name, i) =>
      set(lines[i], {
        visibility: name === "paper" || get(name) ? "visible" : "hidden",
        points: grid.map((s) => `${fixed(x(s), 1)},${up(curves[name](s)).toFixed(1)}`).join(" "),
      }),
    );
    const place = (element, s) =>
      set(element, { transform: `translate(${fixed(x(s), 1)} ${fixed(up(curves.paper(s)), 1)})` });
    place(top, shape.warmup);
    const late = x(shape.warmup) > (LEFT + right) / 2;
    set(top.lastChild, {
      text: `peak ${rate(shape.top)}`,
      "text-anchor": late ? "end" : "start",
      x: late ? -8 : 8,
    });
    // a mark's loss is beside it on the way up and above it on the way down, unless other words are there
    const taken = [[x(shape.warmup) + (late ? -45 : 45), up(shape.top) - 10, 40]]; // middle, height, half the width
    milestones(run).forEach(([s], i) => {
      const [mx, my] = [x(Math.max(1, s)), up(runAt(run, s, "rate"))];
      set(marks[i], { transform: `translate(${fixed(mx, 1)} ${fixed(my, 1)})` });
      const [dx, dy] = s >= topStep ? [0, -10] : [mx > LEFT + 30 ? -14 : 14, 4];
      const room = taken.every(
        ([px, py, half]) => Math.abs(mx + dx - px) > half + 8 || Math.abs(my + dy - py) > 14,
      );
      if (room) taken.push([mx + dx, my + dy, 10]);
      set(marks[i].lastChild, { x: dx, y: dy, visibility: room ? "visible" : "hidden" });
    });
    place(handle, step);
    set(line, { x1: x(step), x2: x(step) });
    const [loss, pace] = ["loss", "rate"].map((what) => runAt(run, step, what));
    set(runLine, {
      points: run.map(([s, , r]) => `${fixed(x(Math.max(1, s)), 1)},${fixed(up(r), 1)}`).join(" "),
    });
    set(handle, {
      "aria-valuenow": step,
      "aria-valuemin": 1,
      "aria-valuemax": last,
      "aria-valuetext": `step ${round(step)}, rate ${rate(here)}`,
    });
    const where =
      step < shape.warmup ? "still rising" : step === shape.warmup ? "at the top" : "falling";
    return `At step ${round(step)} the rate is ${rate(here)}, ${percent(here / shape.top)} of its peak, ${where}.${
      loss === null
        ? ""
        : ` The recorded run, on its own schedule, had a loss of ${fixed(loss)} there, at a rate of ${rate(pace)}.`
    }`;
  }

  const [slow] = longest([1.2e-9, 1.2e-5, 1.2e-4].map(rate));
  const start = `At step ${round(last)} the rate is ${slow}, 100\u00a0% of its peak, still rising.`;
  return {
    controls: [
      height.element,
      model.element,
      peak.element,
      warmup.element,
      ...others.map((other) => other.element),
      log.element,
    ],
    picture: [
      html(
        "div",
        { class: "lf-wide" },
        html(
          "p",
          {},
          key("paper", "this schedule"),
          run.length ? key("run", "the recorded run’s, marked with its loss") : null,
        ),
        picture,
      ),
    ],
    draw,
    longest: [
      run.length
        ? `${start} The recorded run, on its own schedule, had a loss of ${fixed(
            Math.max(...run.map(([, loss]) => loss)),
          )} there, at a rate of ${slow}.`
        : start,
    ],
  };
}

export default live({
  name: "ScheduleExplorer",
  title: () => "Why climb before descending?",
  state: {
    height: ["d_model", "peak"],
    d_model: [64, 2048, 1],
    warmup: [10, 10000, 1],
    peak: [1e-5, 1e-2],
    step: [1, 1e7, 1],
    constant: [],
    cosine: [],
    logarithmic: [],
  },
  build,
});
