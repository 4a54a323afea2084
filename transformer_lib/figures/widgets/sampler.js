// Sampler: what is left to sample from? A model's next letter under temperature, top-k and top-p.
import {
  canvas,
  choice,
  fixed,
  fluid,
  html,
  live,
  percent,
  scale,
  set,
  slider,
  softmax,
  steps,
  sum,
  svg,
} from "./kit.js";

// ---- arithmetic

/** Indices of the logits, the highest first; ties keep their order. */
export const ranked = (logits) =>
  logits.map((_, i) => i).sort((a, b) => logits[b] - logits[a] || a - b);

/** The sampling probabilities: first temperature, then top-k, then top-p of the rest. */
export function reshaped({ logits, temperature, top_k, top_p }) {
  const order = ranked(logits);
  const probs = softmax(logits, temperature);
  const left = sum(order.slice(0, top_k).map((i) => probs[i]));
  const kept = logits.map(() => 0);
  let before = 0; // the sum of all more probable ones
  for (const i of order.slice(0, top_k)) {
    if (before >= top_p) break; // the one that takes the sum past top_p stays
    kept[i] = probs[i] / left;
    before += kept[i];
  }
  return kept.map((p) => p / before);
}

/** The entropy in nats. */
export const entropy = (probs) => -sum(probs.filter((p) => p > 0).map((p) => p * Math.log(p)));

/** How many of the most probable ones it takes to add up to this share. */
export function sharing(probs, share) {
  let [n, total] = [0, 0];
  for (const p of [...probs].sort((a, b) => b - a)) {
    if (total >= share - 1e-9) break;
    total += p;
    n += 1;
  }
  return n;
}

// ---- picture

const [HEIGHT, LEFT, TOP, BOTTOM, BARS] = [220, 40, 12, 188, 20];
const seen = (text) => text.replaceAll(" ", "␣").replaceAll("\n", "↵");
const NAMES = { " ": "a space", "\n": "a new line" };
const WARM = steps(31).map((p) => Number((0.1 * 10 ** (p / 20)).toPrecision(2)));
const nearest = (list, x) =>
  steps(list.length).sort(
    (a, b) => Math.abs(Math.log(list[a] / x)) - Math.abs(Math.log(list[b] / x)),
  )[0];

function build({ get, all, change }) {
  const [prompts, pieces, logits] = ["prompts", "pieces", "logits"].map(get);
  const n = pieces.length;
  const shown = Math.min(BARS, n);
  const controls = {
    prompt: choice({
      label: "the text so far ends with",
      options: prompts.map((text, i) => [i, seen(text)]),
      onInput: (prompt) => change({ prompt }),
    }),
    temperature: slider({
      label: "temperature",
      last: WARM.length - 1,
      read: (p) => WARM[p],
      find: (t) => nearest(WARM, t),
      show: (t) => t.toFixed(2),
      onInput: (temperature) => change({ temperature }),
    }),
    top_k: slider({
      label: "top-k",
      last: n - 1,
      read: (p) => p + 1,
      find: (k) => Math.min(k, n) - 1,
      show: (k) => (k >= n ? `all ${n}` : String(k)),
      onInput: (top_k) => change({ top_k }),
    }),
    top_p: slider({
      label: "top-p",
      last: 99,
      read: (p) => (p + 1) / 100,
      find: (p) => 100 * p - 1,
      show: (p) => p.toFixed(2),
      onInput: (top_p) => change({ top_p }),
    }),
  };
  const bar = (kind) => steps(shown).map(() => svg("rect", { class: `sa-${kind}` }));
  const [after, before] = [bar("after"), bar("before")];
  const names = steps(shown).map(() =>
    svg("text", { y: BOTTOM + 17, class: "sa-name", "text-anchor": "middle" }),
  );
  const ticks = steps(3).map(() => [
    svg("line", { class: "lf-grid", x1: LEFT }),
    svg("text", { class: "lf-tick", x: LEFT - 6, "text-anchor": "end" }),
  ]);
  const picture = canvas(
    640,
    HEIGHT,
    { role: "img" },
    ...ticks.flat(),
    ...after,
    ...before,
    ...names,
  );
  const size = fluid(picture, HEIGHT, () => draw());
  const legend = html(
    "p",
    { class: "sa-legend" },
    html("span", { class: "sa-key-before", text: "the model’s own" }),
    html("span", { class: "sa-key-after", text: "what is drawn from" }),
    shown < n ? `the ${shown} most probable of ${n}` : "",
  );

  function draw() {
    const state = all();
    state.prompt = Math.min(state.prompt, prompts.length - 1); // an address may ask for one that doesn't exist
    Object.entries(controls).forEach(([name, control]) => control.update(state[name]));
    const own = softmax(logits[state.prompt]);
    const kept = reshaped({ ...state, logits: logits[state.prompt] });
    const order = ranked(logits[state.prompt]);
    const most = Math.max(own[order[0]], kept[order[0]]);
    const end = [0.1, 0.2, 0.4, 0.6].find((x) => x >= most) ?? 1;
    const [y, step] = [scale([0, end], [BOTTOM, TOP]), (size.width - LEFT) / shown];
    ticks.forEach(([line, text], i) => {
      set(line, { x2: size.width, y1: y((end * i) / 2), y2: y((end * i) / 2) });
      set(text, { y: y((end * i) / 2) + 4, text: percent((end * i) / 2) });
    });
    steps(shown).forEach((i) => {
      const place = (share) => ({
        x: fixed(LEFT + i * step + 2, 1),
        width: (step - 4).toFixed(1),
        y: fixed(y(share), 1),
        height: (BOTTOM - y(share)).toFixed(1),
      });
      set(after[i], place(kept[order[i]]));
      set(before[i], place(own[order[i]]));
      set(names[i], {
        x: fixed(LEFT + (i + 0.5) * step, 1),
        text: seen(pieces[order[i]]),
        "data-off": kept[order[i]] === 0,
      });
    });
    const said = sentence(prompts[state.prompt], kept, pieces[order[0]]);
    set(picture, { "aria-label": said });
    return said;
  }

  function sentence(prompt, kept, best) {
    const left = kept.filter((p) => p > 0).length;
    const [nats, ninety] = [entropy(kept), sharing(kept, 0.9)];
    return `After “${seen(prompt)}”, ${left} of ${n} ${left === 1 ? "is" : "are"} left. The most probable, ${NAMES[best] ?? best}, has ${percent(Math.max(...kept))}. ${
      ninety === 1 ? "It alone has" : `${ninety} together have`
    } 90\u00a0%. Entropy: ${fixed(nats)} nats, like an even choice among ${Math.exp(nats).toFixed(1)}.`;
  }

  const widest = [...prompts].sort((a, b) => b.length - a.length)[0];
  return {
    controls: [
      controls.prompt.element,
      html(
        "div",
        { class: "sa-sliders" },
        ...["temperature", "top_k", "top_p"].map((name) => controls[name].element),
      ),
    ],
    picture: [html("div", { class: "lf-wide" }, legend, picture)],
    draw,
    longest: [
      sentence(
        widest,
        pieces.map(() => 1 / n),
        "\n",
      ),
    ],
  };
}

export default live({
  name: "Sampler",
  title: () => "What is left to draw from?",
  build,
  state: { prompt: [0, 99, 1], temperature: [0.1, 3.2], top_k: [1, 100000, 1], top_p: [0.01, 1] },
});
