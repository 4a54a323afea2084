// AlignmentStepper: which source word does the decoder attend to? Its weights mix the encoder's states.
import {
  canvas,
  choice,
  diverging,
  dot,
  fluid,
  html,
  live,
  longest,
  percent,
  set,
  stepper,
  steps,
  svg,
} from "./kit.js";

// ---- arithmetic

export const END = "<eos>";

/** The context vector of one step: weights (S,) @ states (S, K), or without weights the last state. */
export const contextOf = (weights, states) =>
  weights === null
    ? states.at(-1)
    : states[0].map((_, k) =>
        dot(
          weights,
          states.map((state) => state[k]),
        ),
      );

/** The positions at which the output differs from the target, which ends with END. */
export const mistakes = (output, target) =>
  steps(output.length).filter((t) => output[t] !== (target[t] ?? END));

/** Source positions by weight, the largest first. */
export const byWeight = (weights) => steps(weights.length).sort((i, j) => weights[j] - weights[i]);

// ---- picture

const [LEFT, RIGHT, WORDS, CELL, ROW] = [66, 76, 66, 13, 24]; // gutters; heights of the words, a component, a row
const rgb = (x) => {
  const [r, g, b, a] = diverging(x);
  return `rgb(${r} ${g} ${b} / ${(a / 255).toFixed(2)})`;
};

function build({ get, change }) {
  const [words, target, kinds, outputs] = ["words", "target", "kinds", "outputs"].map(get);
  const [weights, states, unit] = ["weights", "states", "unit"].map(get);
  const [S, K, T] = [
    words.length,
    states[0][0].length,
    Math.max(...outputs.map((output) => output.length)),
  ];
  const [weightY, mapY] = [WORDS + K * CELL + 18, WORDS + K * CELL + 34];
  const right = (t) => target[t] ?? END;

  const kind = choice({
    label: "attention",
    options: kinds.map((name) => [name, name]),
    onInput: (attention) => change({ attention }),
  });
  const time = stepper({
    label: `${unit}s written`,
    last: T,
    onInput: (step) => change({ step }),
    show: (n) => `${n} of ${shown().output.length}`,
  });
  function shown() {
    const i = Math.max(0, kinds.indexOf(get("attention"))); // an address may ask for an unknown kind
    const step = Math.min(get("step"), outputs[i].length);
    return {
      name: kinds[i],
      output: outputs[i],
      states: states[i],
      step,
      weights: kinds[i] === "none" ? null : weights[i],
    };
  }

  const label = (text, y, anchor = "end") =>
    svg("text", { y, x: LEFT - 8, text, "text-anchor": anchor, class: "lf-tick" });
  const columns = words.map((word) => ({
    word: svg("text", { text: word }),
    share: svg("text", { class: "lf-tick", "text-anchor": "middle", y: weightY }),
    ground: svg("rect", { y: WORDS, height: K * CELL, class: "as-frame" }),
    cells: steps(K).map((k) => svg("rect", { y: WORDS + k * CELL, height: CELL })),
  }));
  const lit = columns.map(({ cells }) => svg("g", {}, ...cells));
  const mix = steps(K).map((k) => svg("rect", { y: WORDS + k * CELL, height: CELL, width: 30 }));
  const mixFrame = svg("rect", { y: WORDS, height: K * CELL, width: 30, class: "as-frame" });
  const mixWord = svg("text", { y: WORDS - 6, text: "context", class: "lf-axis" });
  const equals = svg("text", { y: WORDS + (K * CELL) / 2 + 5, text: "=" });
  const rows = steps(T).map((t) => ({
    at: mapY + t * ROW,
    word: svg("text", { x: LEFT - 8, y: mapY + t * ROW + 17, "text-anchor": "end" }),
    cells: words.map(() =>
      svg("rect", { y: mapY + t * ROW + 1, height: ROW - 2, class: "as-cell" }),
    ),
    hint: svg("text", { y: mapY + t * ROW + 17, class: "as-wrong" }),
  }));
  const lines = rows.map(({ word, cells, hint }) => svg("g", {}, word, ...cells, hint));
  const now = svg("rect", { x: 1, height: ROW, rx: 4, class: "as-now" });
  const secondHalf = svg("tspan", { text: "its weight, add up to the context" });
  const caption = svg(
    "text",
    { y: 14, x: 1, class: "lf-tick" },
    svg("tspan", { text: "the encoder’s states, each lit by " }),
    secondHalf,
  );
  const nothing = svg("text", {
    y: mapY + ROW * 1.5 + 5,
    class: "lf-halo lf-tick",
    "text-anchor": "middle",
    text: "no weights, no map",
  });
  const height = mapY + T * ROW + 4;
  const picture = canvas(
    640,
    height,
    {
      class: "lf-svg as-picture",
      role: "img",
      "aria-label": "states of the encoder, their weights and the alignment map",
    },
    label("states", WORDS + (K * CELL) / 2 + 4),
    label("weight, %", weightY),
    ...columns.flatMap((c) => [c.ground, c.word, c.share]),
    ...lit,
    mixFrame,
    mixWord,
    equals,
    ...mix,
    ...lines,
    nothing,
    now,
    caption,
  );
  picture.style.height = `${height}px`;
  const size = fluid(picture, height, () => draw());

  function layout() {
    const column = Math.min(72, (size.width - LEFT - RIGHT) / S);
    const flat = Math.max(...words.map((word) => word.length)) * 7.2 < column;
    const [x, end] = [(j) => LEFT + j * column, LEFT + S * column];
    columns.forEach(({ word, share, ground, cells }, j) => {
      const middle = x(j) + column / 2;
      set(
        word,
        flat
          ? { x: middle, y: WORDS - 7, transform: null, "text-anchor": "middle" }
          : {
              x: 0,
              y: 0,
              transform: `translate(${middle + 4} ${WORDS - 5}) rotate(-90)`,
              "text-anchor": "start",
            },
      );
      set(share, { x: middle });
      [ground, ...cells].forEach((cell) => set(cell, { x: x(j) + 2, width: column - 4 }));
    });
    rows.forEach(({ cells, hint }) => {
      cells.forEach((cell, j) => set(cell, { x: x(j) + 1, width: column - 2 }));
      set(hint, { x: end + 8 });
    });
    [mixFrame, ...mix].forEach((cell) => set(cell, { x: end + 26 }));
    set(equals, { x: end + 8 });
    set(mixWord, { x: end + 20 });
    set(now, { width: end + 2 });
    set(nothing, { x: (LEFT + end) / 2 });
    set(caption, { visibility: flat ? "visible" : "hidden" }); // upright words take its place
    set(secondHalf, size.width > 520 ? { x: null, dy: null } : { x: 1, dy: 16 }); // two lines on a phone
  }

  let laid = 0;
  function draw() {
    const state = shown();
    const { output, step, name } = state;
    if (laid !== size.width) layout();
    laid = size.width;
    kind.update(name);
    time.limit(output.length);
    time.update(step);
    const row = step > 0 && state.weights ? state.weights[step - 1] : null;
    const context = step > 0 ? contextOf(row, state.states) : null;
    columns.forEach(({ cells, share }, j) => {
      const part = row ? row[j] : Number(step > 0 && j === S - 1);
      cells.forEach((cell, k) => set(cell, { fill: rgb(state.states[j][k]) }));
      set(lit[j], { opacity: (0.1 + 0.9 * part).toFixed(2) });
      set(share, {
        text: row ? Math.round(100 * part) : part ? "all" : "–",
        class: part >= 0.1 ? "as-most" : "lf-tick",
      });
    });
    mix.forEach((cell, k) => set(cell, { fill: context ? rgb(context[k]) : "none" }));
    const wrong = new Set(mistakes(output, target));
    rows.forEach(({ word, cells, hint }, t) => {
      set(lines[t], { visibility: t < output.length ? "visible" : "hidden" });
      set(word, { text: t < step ? output[t] : "", class: wrong.has(t) ? "as-wrong" : "as-word" });
      set(hint, { text: t < step && wrong.has(t) ? `≠ ${right(t)}` : "" });
      cells.forEach((cell, j) =>
        set(cell, { "fill-opacity": state.weights && t < step ? state.weights[t][j] : 0 }),
      );
    });
    set(nothing, { visibility: state.weights ? "hidden" : "visible" });
    set(now, { y: step ? rows[step - 1].at : 0, visibility: step ? "visible" : "hidden" });
    return sentence(state, row, wrong);
  }

  const place = (j) =>
    words.indexOf(words[j]) === words.lastIndexOf(words[j])
      ? words[j]
      : `${words[j]} (${unit} ${j + 1})`;
  const [word] = longest([...words, ...target, ...outputs.flat(), END]);
  function sentence({ output, step, name }, row, wrong, should = right(step - 1)) {
    if (step === 0)
      return `The encoder has read ${S} ${unit}s; the decoder hasn’t written anything yet. ${name === "none" ? "It will get only the last state." : ""}`.trim();
    const said = wrong.has(step - 1) ? `, which should be ${should}` : "";
    let from = "the decoder has no weights, only the last state, the same at every step";
    if (row) {
      const [first, second] = byWeight(row);
      from = `${percent(row[first])} of the context comes from ${place(first)}${row[second] >= 0.1 ? `, ${percent(row[second])} from ${place(second)}` : ""}`;
    }
    const done =
      step < output.length
        ? ""
        : wrong.size
          ? ` It has ${wrong.size} ${wrong.size > 1 ? "mistakes" : "mistake"}.`
          : " It’s all right.";
    return `Writing step ${step}, ${output[step - 1]}${said}: ${from}.${done}`;
  }

  return {
    controls: [...(kinds.length > 1 ? [kind.element] : []), time.element],
    picture: [html("div", { class: "lf-wide" }, picture)],
    draw,
    longest: ["none", "dot"].map((name) =>
      sentence(
        { name, step: T, output: steps(T).map(() => word) },
        name === "none" ? null : words.map(() => 0.15),
        new Set(steps(T)),
        word,
      ),
    ),
  };
}

export default live({
  name: "AlignmentStepper",
  title: (get) => `Which source ${get("unit")} does the decoder attend to?`,
  state: { attention: ["none", "additive", "dot", "general"], step: [0, 16, 1] },
  build,
});
