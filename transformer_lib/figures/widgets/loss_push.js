// LossPush: which way does the loss push each logit? A few tokens, their softmax, the target, and gradient descent.
import {
  axes,
  button,
  canvas,
  choice,
  clamp,
  draggable,
  fixed,
  fluid,
  html,
  live,
  pointIn,
  scale,
  set,
  slider,
  softmax,
  steps,
  sum,
  svg,
} from "./kit.js";

// ---- arithmetic

/** The target distribution: 1 − ε for the right token, and ε spread evenly over all n. */
export const targetOf = (n, right, smoothing) =>
  steps(n).map((i) => smoothing / n + (i === right ? 1 - smoothing : 0));

const surprise = (share, log) => (share > 0 ? -share * log : 0); // 0 · log 0 counts as 0

/** Cross-entropy between the target and the softmax of the logits, in nats. */
export function lossOf(logits, target) {
  const best = Math.max(...logits);
  const whole = best + Math.log(sum(logits.map((z) => Math.exp(z - best))));
  return sum(target.map((share, i) => surprise(share, logits[i] - whole)));
}

/** The lowest possible loss, where the softmax is the target. */
export const floorOf = (target) => sum(target.map((share) => surprise(share, Math.log(share))));

/** Minus the gradient of the loss: target − softmax. Positive pushes the logit up. */
export function pushOf(logits, target) {
  const p = softmax(logits);
  return target.map((share, i) => share - p[i]);
}

/** The logits after n steps of gradient descent. */
export const descend = (logits, target, rate, n) =>
  steps(n).reduce((now) => pushOf(now, target).map((push, i) => now[i] + rate * push), logits);

/** The logits with the same sum at which nothing is pushed; null without smoothing, where no finite logits are enough. */
export function restOf(logits, target) {
  if (target.some((share) => share === 0)) return null;
  const logs = target.map(Math.log);
  const shift = (sum(logits) - sum(logs)) / logits.length;
  return logs.map((log) => log + shift);
}

/** The loss if the right token has probability p and the others share the rest evenly. */
export const evenly = (p, target, right) =>
  sum(
    target.map((share, i) =>
      surprise(share, Math.log(i === right ? p : (1 - p) / (target.length - 1))),
    ),
  );

// ---- picture

const [HEIGHT, LEFT, TOP, BOTTOM] = [186, 58, 22, 176]; // room for the axis on the left
const [LOW, HIGH] = [-4, 8]; // the range of logits to draw and to drag in
const CURVE = { height: 164, left: 28, top: 22, bottom: 122, most: 4 };
const signed = (x) => (x >= 0.005 ? `+${fixed(x)}` : fixed(x));
const small = (x) =>
  x < 0.0001 ? "< 0.0001" : x < 0.005 ? String(Number(x.toPrecision(1))) : fixed(x);

function build({ get, all, change, refresh }) {
  const tokens = get("tokens");
  const n = tokens.length;
  const state = () => ({ ...all(), right: Math.min(get("right"), n - 1) }); // an address may ask for a token that doesn't exist
  const target = ({ right, smoothing }) => targetOf(n, right, smoothing);

  const which = choice({
    label: "the right token",
    options: tokens.map((token, i) => [i, token]),
    onInput: (right) => change({ right }),
  });
  const smooth = slider({
    label: "smoothing",
    last: 50,
    read: (p) => p / 100,
    find: (s) => 100 * s,
    show: (s) => String(Number(s.toFixed(2))),
    onInput: (smoothing) => change({ smoothing }),
  });
  const speed = slider({
    label: "learning rate",
    last: 15,
    read: (p) => (p + 1) / 2,
    find: (r) => 2 * r - 1,
    show: (r) => String(Number(r.toFixed(1))),
    onInput: (rate) => change({ rate }),
  });
  const walk = (many) => () => {
    const now = state();
    change({ logits: descend(now.logits, target(now), now.rate, many) });
  };
  const buttons = html(
    "div",
    { class: "lp-buttons" },
    button("One step", walk(1)),
    button("100 steps", walk(100)),
  );

  const y = scale([LOW, HIGH], [BOTTOM, TOP]);
  const picture = canvas(640, HEIGHT, {
    class: "lf-svg lp-logits",
    role: "group",
    "aria-label": "the logits",
  });
  const frame = svg("g");
  const columns = tokens.map((token, i) => {
    const move = (z) =>
      change({
        logits: get("logits").map((old, j) =>
          j === i ? Math.round(clamp(z, LOW, HIGH) * 10) / 10 : old,
        ),
      });
    const handle = draggable(
      svg(
        "g",
        { "aria-label": `logit of ${token}` },
        svg("circle", { r: 17, class: "lf-touch" }),
        svg("circle", { r: 8, class: "lf-knob" }),
      ),
      {
        at: () => [0, get("logits")[i]],
        to: (across, up) => move(up + across),
        point: (event) => [0, y.invert(pointIn(picture, event)[1])],
        step: 0.1,
        leap: 1,
      },
    );
    return {
      handle,
      rest: svg("line", { class: "lp-rest" }),
      arrow: svg("path", { class: "lp-arrow" }),
    };
  });
  picture.append(
    frame,
    ...columns.flatMap(({ rest, arrow }) => [rest, arrow]),
    ...columns.map(({ handle }) => handle),
  );
  const size = fluid(picture, HEIGHT, () => refresh());

  const rows = ["logit", "softmax", "target", "push"].map((name) => [
    name,
    tokens.map(() => html("td")),
  ]); // push = target − softmax
  const table = html(
    "table",
    { class: "lp-table" },
    html(
      "thead",
      {},
      html(
        "tr",
        {},
        html("td"),
        ...tokens.map((token) => html("th", { scope: "col", text: token })),
      ),
    ),
    html(
      "tbody",
      {},
      ...rows.map(([name, cells]) =>
        html("tr", {}, html("th", { scope: "row", text: name }), ...cells),
      ),
    ),
  );
  const key = (kind, text) => html("span", {}, html("i", { class: kind }), text);
  const legend = html(
    "div",
    { class: "lf-legend lp-legend" },
    key("lp-up", "the next step"),
    key("lp-dash", "no push here"),
  );

  const graph = canvas(640, CURVE.height, { role: "img" });
  const [around, path, floor, spot] = [
    svg("g"),
    svg("path", { class: "lp-curve" }),
    svg("line", { class: "lp-floor" }),
    svg("circle", { r: 6, class: "lf-knob" }),
  ];
  graph.append(around, floor, path, spot);
  const room = fluid(graph, CURVE.height, () => refresh());

  function draw() {
    const now = state();
    const [asked, p] = [target(now), softmax(now.logits)];
    const [push, rest, loss] = [
      pushOf(now.logits, asked),
      restOf(now.logits, asked),
      lossOf(now.logits, asked),
    ];
    which.update(now.right);
    smooth.update(now.smoothing);
    speed.update(now.rate);
    frame.replaceChildren(
      axes({
        y,
        left: LEFT - 8,
        right: size.width,
        top: TOP,
        bottom: BOTTOM,
        xTicks: [],
        yTicks: steps(7).map((i) => [LOW + 2 * i, fixed(LOW + 2 * i, 0)]),
        xLabel: "",
        yLabel: "logit",
      }),
    );
    const wide = (size.width - LEFT) / n;
    const inside = (z) => y(clamp(z, LOW, HIGH));
    columns.forEach(({ handle, rest: dash, arrow }, i) => {
      const x = LEFT + (i + 0.5) * wide;
      const [from, to] = [inside(now.logits[i]), inside(now.logits[i] + now.rate * push[i])];
      const [head, way] = [Math.min(8, Math.abs(to - from)), Math.sign(to - from)];
      set(handle, {
        transform: `translate(${x - 6} ${from})`,
        "aria-valuenow": clamp(now.logits[i], LOW, HIGH),
        "aria-valuemin": LOW,
        "aria-valuemax": HIGH,
        "aria-valuetext": `${fixed(now.logits[i])}, pushed by ${signed(push[i])}`,
      });
      const side = Math.max(4, 0.75 * head) - 2; // a short arrow has a small head
      set(arrow, {
        d: `M${x + 8} ${from}h4V${to - way * head}h${side}L${x + 10} ${to}L${x + 8 - side} ${to - way * head}h${side}Z`,
        "data-down": push[i] < 0,
      });
      dash.style.display = rest && rest[i] >= LOW && rest[i] <= HIGH ? "" : "none";
      set(dash, { x1: x - 19, x2: x + 17, y1: inside(rest?.[i] ?? 0), y2: inside(rest?.[i] ?? 0) });
    });
    [now.logits, p, asked, push].forEach((list, row) =>
      list.forEach((number, i) =>
        set(rows[row][1][i], { text: row === 3 ? signed(number) : fixed(number) }),
      ),
    );
    rows[3][1].forEach((cell, i) =>
      set(cell, { "data-up": push[i] >= 0.005, "data-down": push[i] <= -0.005 }),
    );
    curve(now, asked, p[now.right], loss);
    return sentence(now, push, loss, floorOf(asked));
  }

  function curve({ right }, asked, p, loss) {
    const { left, top, bottom, most } = CURVE;
    const x = scale([0, 1], [left, room.width - 8]);
    const up = scale([0, most], [bottom, top]);
    around.replaceChildren(
      axes({
        x,
        y: up,
        left,
        right: x(1),
        top,
        bottom,
        xTicks: [0, 0.2, 0.4, 0.6, 0.8, 1].map((t) => [t, t]),
        yTicks: steps(most + 1).map((t) => [t, t]),
        xLabel: `probability of ${tokens[right]}`,
        yLabel: "loss, with the rest shared evenly",
      }),
    );
    const points = steps(199, 1)
      .map((i) => i / 200)
      .filter((q) => evenly(q, asked, right) <= most);
    set(path, {
      d: points
        .map(
          (q, i) => `${i ? "L" : "M"}${x(q).toFixed(1)} ${up(evenly(q, asked, right)).toFixed(1)}`,
        )
        .join(""),
    });
    set(floor, { x1: left, x2: x(1), y1: up(floorOf(asked)), y2: up(floorOf(asked)) });
    set(spot, { cx: x(p), cy: up(Math.min(loss, most)) });
    set(graph, {
      "aria-label": `${tokens[right]} has probability ${fixed(p)}; the loss is ${fixed(loss)}; the lowest possible is ${fixed(floorOf(asked))}`,
    });
  }

  function sentence({ right, smoothing }, push, loss, lowest) {
    const now = `The loss is ${small(loss)} nats`;
    if (Math.max(...push.map(Math.abs)) < 0.0005 && smoothing > 0) {
      return `${now}, the lowest possible with smoothing ${Number(smoothing.toFixed(2))}. The softmax is the target, so nothing is pushed.`;
    }
    const [up, down] = [push.indexOf(Math.max(...push)), push.indexOf(Math.min(...push))];
    const pushes = `It pushes ${tokens[up]} up and ${tokens[down]} down the most, by ${small(push[up])} and ${small(-push[down])}.`;
    if (smoothing > 0) return `${now}, ${small(loss - lowest)} above its lowest. ${pushes}`;
    return `${now}. ${pushes} No softmax reaches a target of 1, so the pushing never ends.`;
  }

  const [one, two] = steps(n).sort((a, b) => tokens[b].length - tokens[a].length);
  const most = tokens.map((_, i) => (i === one ? 0.00002 : i === two ? -0.00001 : 0));
  const rested = tokens.map(() => 0);
  return {
    controls: [smooth.element, buttons],
    more: [which.element, speed.element],
    picture: [html("div", { class: "lp-main" }, picture, table, legend), graph],
    draw,
    longest: [
      [0, most],
      [0.25, rested],
    ].map(([smoothing, push]) => sentence({ right: one, smoothing }, push, 0.00001, 0)),
  };
}

export default live({
  name: "LossPush",
  title: () => "Which way does the loss push each logit?",
  build,
  state: { logits: [-40, 40], right: [0, 5, 1], smoothing: [0, 0.5], rate: [0.5, 8] },
});
