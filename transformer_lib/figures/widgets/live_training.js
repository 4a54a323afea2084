// LiveTraining: a Transformer learns in the page, next to a second one without what the reader turns off.
// compose() puts the Transformer before this text: `engine`, and `engineSource`, whose text a Worker runs.
import {
  axes,
  button,
  canvas,
  choice,
  diverging,
  fixed,
  fluid,
  html,
  live,
  longest,
  paint,
  palette,
  room,
  scale,
  set,
  slider,
  steps,
  svg,
  textInput,
  toggle,
} from "./kit.js";

// ---- words
const LAST = 300; // steps
const GUESSES = [
  ["same", "as well"],
  ["worse", "less well"],
  ["none", "not at all"],
  ["blind", "low loss, nothing right"],
];
const guessed = Object.fromEntries(GUESSES);
const EXAMPLES = { reverse: "abcdefgh", copy: "abcdefgh", sort: "hgcabfde", numbers: "73" };
const LIMITS = ["up to 8 letters from a to j", "a number below 100"]; // what an example can be
const DEED = {
  reverse: "reverse words",
  copy: "copy words",
  sort: "sort letters",
  numbers: "write numbers in words",
};
const REASONS = {
  "no causal mask blind":
    "In training it could read the letter to predict; when it writes, it can’t.",
  "no positions none": "Without positions, a word and its reverse look the same to the encoder.",
  "no scale none":
    "With heads of width 32, its scores are 5.7 times as large: the softmax saturates.",
  "no scale same": "With heads of width 8, the scale is only 2.8: try the wide model.",
  "norm after same":
    "With one layer, the order hardly matters: try the deep model without a warm-up.",
  "no warm-up same": "With one layer and the norm first, it hardly matters: try the deep model.",
  "no warm-up none": "Now change the order of the norms too.",
};

/** The status line. told: null before the first start, or { phase, step, runs: [{ loss, exact }], outdated }. */
export function sentence(state, told) {
  const differs = engine.changes(state);
  const bet = state.guess && differs.length ? `Your guess: ${guessed[state.guess]}. ` : "";
  if (!told)
    return `${bet}Nothing is running yet. Start trains ${differs.length ? "two models" : "one model"} to ${DEED[state.task]}, for ${LAST} steps.`;
  if (told.phase === "failed")
    return "This page isn’t allowed to compute in the background, so it can’t train anything.";
  if (told.outdated)
    return "These runs keep their own settings. “Start anew” drops them and trains with yours.";
  const { step, runs = null, phase } = told;
  if (!runs)
    return `${bet}${phase === "paused" ? "Paused" : "Started"}: ${differs.length ? "two runs with the same initial weights and the same words" : "one run"}.`;
  const [first, second] = runs.map(({ exact }) => Math.round(100 * exact));
  const now = `${phase === "paused" ? "Paused. " : ""}At step ${step} the first run gets ${first} of 100 right${runs.length > 1 ? `, the second ${second}` : ""}.`;
  if (phase !== "done" || runs.length < 2) return now;
  const result = engine.outcome(runs);
  if (!result)
    return `${now} The first run hasn’t learned the task yet: continue, or try another seed.`;
  const right =
    state.guess === result ? " You guessed it." : ` You guessed “${guessed[state.guess]}”.`;
  const verdict = `The answer: “${guessed[result]}”.${state.guess ? right : ""}`;
  return `${now} ${verdict} ${(differs.length === 1 && REASONS[`${differs[0]} ${result}`]) || ""}`.trim();
}

// ---- picture

const LEVEL = (8 / 9) * Math.log(10); // the loss for guessing letters and knowing where the end is
const [HEIGHT, TOP, BOTTOM, LEFT, HEADS] = [104, 20, 84, 40, 4];
const MAPS = { cross: /^decoder.*cross/, encoder: /^encoder/, decoder: /^decoder.*self/ };
// each with what the second run may lack; the rest of "all" folds under More
const QUESTIONS = {
  all: [
    "What does a model need in order to learn?",
    ["causal", "residual", "scale", "several", "warmup"],
  ],
  mask: ["What does a model learn without a causal mask?", ["causal"]],
  residual: ["Does a model learn without residual connections?", ["residual"]],
  positions: ["What can a model learn without positions?", ["positions"]],
  heads: ["Does one wide head do as well as several?", ["several"]],
  scale: ["Does a model learn without the scale?", ["scale"]],
  warmup: ["Does a model need a warm-up?", ["warmup", "order"]],
};

function chart({ label, low, high, ticks, say }) {
  let frame = svg("g");
  const lines = [0, 1].map((i) =>
    svg("polyline", { class: "lt-line", "data-run": i, fill: "none", stroke: palette[i ? 0 : 2] }),
  );
  const level = svg("line", { class: "lt-level" });
  const picture = canvas(640, HEIGHT, { role: "img", "aria-label": label }, frame, level, ...lines);
  Object.assign(picture.style, { height: `${HEIGHT}px`, maxWidth: "none" });
  const size = fluid(picture, HEIGHT, () => draw());
  let [drawn, given] = ["", { last: 300, curves: [] }];
  function draw() {
    const { last, curves, from = null } = given;
    const right = size.width - 32;
    const [x, y] = [scale([0, last], [LEFT, right]), scale([low, high], [BOTTOM, TOP])];
    if (drawn !== (drawn = `${last} ${size.width}`)) {
      const fresh = axes({
        x,
        y,
        left: LEFT,
        right,
        top: TOP,
        bottom: BOTTOM,
        xLabel: "",
        yLabel: label,
        yTicks: ticks.map((tick) => [tick, say(tick)]),
        xTicks: steps(4).map((i) => [(last * i) / 3, `${(last * i) / 3}${i < 3 ? "" : " steps"}`]),
      });
      frame.replaceWith(fresh);
      frame = fresh;
    }
    set(level, {
      x1: LEFT,
      x2: right,
      y1: y(from ?? low),
      y2: y(from ?? low),
      visibility: from === null ? "hidden" : "visible",
    });
    lines.forEach((line, i) =>
      set(line, {
        points: (curves[i] ?? [])
          .map(
            ([step, value]) =>
              `${x(step).toFixed(1)},${y(Math.min(high, Math.max(low, value))).toFixed(1)}`,
          )
          .join(" "),
      }),
    );
  }
  return {
    picture,
    update(now) {
      given = now;
      draw();
    },
  };
}

function panel(i) {
  const [name, numbers, written, beside] = [
    html("b"),
    html("span"),
    html("span", { class: "lt-written" }),
    html("span", { class: "lt-beside", "aria-hidden": true }),
  ];
  const maps = steps(HEADS).map((h) => {
    const [field, over] = [
      html("canvas", {
        width: 1,
        height: 1,
        role: "img",
        "aria-label": `attention weights of head ${h + 1}`,
      }),
      html("span", { "aria-hidden": true }),
    ];
    return { field, over, element: html("div", { class: "lt-map" }, over, field) };
  });
  const head = html(
    "p",
    { class: "lt-name", "data-run": i },
    room(name, ["second run: learned positions", "second run: 5 things changed"]),
  );
  const element = html(
    "div",
    { class: "lt-run" },
    head,
    room(numbers, ["step 9000: loss 0.000, 100 of 100 right"]),
    room(written, ["abcdefgh → (nothing)", "abcdefgh → hgfedcba?", "88 → seventy-threexx"]),
    html("div", { class: "lt-maps" }, beside, ...maps.map((map) => map.element)),
  );
  return {
    element,
    update({ title, said, look, text, answer, kind, heads }) {
      set(name, { text: title });
      set(numbers, { text: said });
      const out = [...(look?.written ?? "")];
      const letters = out.map((letter, at) =>
        html("span", { text: letter, "data-wrong": letter !== look.answer[at] || null }),
      );
      written.replaceChildren(
        ...(!title
          ? []
          : look
            ? [`${look.text} → `, ...(letters.length ? letters : ["(nothing)"])]
            : [`${text} → ${answer}?`]),
      );
      const [read, right] = [[...(look?.text ?? "")], [...(look?.answer ?? "")]];
      const [columns, rows] = [
        kind === "decoder" ? ["^", ...right] : read,
        kind === "encoder" ? read : [...right, "$"],
      ];
      set(beside, { text: look && rows.length < 12 ? rows.join("\n") : "", "--rows": rows.length });
      const [
        ,
        {
          weights,
          shape: [, t, s],
        },
      ] = Object.entries(look?.maps ?? {}).findLast(([name]) => MAPS[kind].test(name)) ?? [
        "",
        { shape: [0, 1, 1] },
      ];
      maps.forEach(({ field, over, element: map }, h) => {
        set(map, { "data-none": h >= heads });
        set(over, {
          text: look && columns.length < 12 ? columns.join("") : "",
          "--columns": columns.length,
        });
        if (field.width !== s || field.height !== t) Object.assign(field, { width: s, height: t });
        paint(field, (column, row) =>
          diverging(weights && h < heads ? weights[(h * t + row) * s + column] : 0),
        );
      });
    },
  };
}

function build({ get, all, change, refresh }) {
  const [, shown] = QUESTIONS[get("question")];
  const still = matchMedia("(prefers-reduced-motion: reduce)");
  const keyOf = (state) => JSON.stringify(engine.runsOf(state));
  let [session, frame, refused] = [undefined, 0, false]; // a session keeps the settings that it began with
  const shownState = () =>
    session ? { ...session.state, guess: get("guess"), attention: get("attention") } : all();
  const typed = (task = get("task")) => engine.tidy(task, get("example"));
  const example = ({ task } = shownState()) => typed(task) || EXAMPLES[task];

  function begin() {
    const script = `"use strict"; const engine = (${engineSource})(); engine.serve(engine.trainingCommands());`;
    const drawn = () => {
      if (!still.matches)
        frame ||= requestAnimationFrame(() => {
          frame = 0;
          update();
        });
    };
    return Object.assign(
      new engine.Session(script, engine.runsOf(all()), { drawn, said: refresh }),
      { state: all(), key: keyOf(all()) },
    );
  }
  function go(most) {
    session ??= begin();
    session.train(most, example);
    refresh();
  }
  const drop = () => {
    session = session?.stop();
  };

  // ---- controls
  const pick = (label, trait, options, more = () => ({})) =>
    choice({
      label,
      options,
      onInput: (value) => change({ [trait]: value, ...more(value) }),
    });
  const on = (label, trait) => toggle({ label, onInput: (value) => change({ [trait]: value }) });
  const controls = {
    task: pick(
      "learn to",
      "task",
      Object.keys(DEED).map((name) => [name, name]),
      (name) => ({ example: EXAMPLES[name] }),
    ),
    base: pick("size and rate", "base", [
      ["small", "small: 4 heads of 8"],
      ["wide", "wide: 2 heads of 32"],
      ["deep", "deep: 2 layers, norm after"],
    ]),
    scale: on("scale 1/√d_k", "scale"),
    causal: on("causal mask", "causal"),
    residual: on("residual", "residual"),
    several: on("several heads", "several"),
    order: on("same order of norms", "order"),
    warmup: on("warm-up", "warmup"),
    positions: pick("positions", "positions", [
      ["waves", "waves"],
      ["learned", "learned"],
      ["none", "none"],
    ]),
    rate: slider({
      label: "rate",
      last: 40,
      read: (p) => Number((10 ** ((p - 20) / 20)).toPrecision(2)),
      find: (x) => 20 + 20 * Math.log10(x),
      show: (x) => `× ${x}`,
      onInput: (rate) => change({ rate }),
    }),
    smoothing: slider({
      label: "label smoothing",
      last: 6,
      read: (p) => p / 20,
      find: (x) => x * 20,
      show: fixed,
      onInput: (smoothing) => change({ smoothing }),
    }),
  };
  const guess = pick("Your guess: the second run will learn it", "guess", GUESSES);
  const kind = pick("show the attention of", "attention", [
    ["cross", "decoder to encoder"],
    ["encoder", "encoder"],
    ["decoder", "decoder"],
  ]);
  const input = textInput({
    "aria-label": "your example",
    oninput: () => {
      const fit = engine.tidy(get("task"), input.value);
      [refused, input.value] = [fit !== input.value.toLowerCase(), fit];
      change({ example: fit });
    },
  });
  const start = button("Start", () =>
    session?.running ? (session.pause(), refresh()) : go(LAST - ((session?.step ?? 0) % LAST)),
  );
  start.classList.add("lt-start");
  const anew = button("Start anew", () => {
    drop();
    go(LAST);
    start.focus(); // this button goes away
  });
  const seed = button("Another seed", () => change({ seed: (get("seed") + 1) % 100 }));
  const buttons = html("div", { class: "lt-buttons" }, start, seed, anew);
  const group = (label, names) =>
    html(
      "div",
      { class: "lt-group", role: "group", "aria-label": label },
      html("p", { text: label }),
      ...names.map((name) => controls[name].element),
    );
  const charts = [
    chart({ label: "loss", low: 0, high: 4, ticks: [0, 2, 4], say: String }),
    chart({
      label: "right out of 100 new words",
      low: 0,
      high: 1,
      ticks: [0, 0.5, 1],
      say: (p) => 100 * p,
    }),
  ];
  const panels = [panel(0), panel(1)];

  function update() {
    const [state, text] = [shownState(), example()];
    const [differs, runs] = [engine.changes(state), engine.runsOf(state)];
    const end = LAST * Math.max(1, Math.ceil((session?.step ?? 0) / LAST));
    charts[0].update({
      last: end,
      curves: session?.losses ?? [],
      from: ["reverse", "copy"].includes(state.task) ? LEVEL : null,
    });
    charts[1].update({ last: end, curves: session?.right ?? [] });
    const titles = [
      `first run: ${state.base}, seed ${state.seed}`,
      runs[1] &&
        `second run: ${differs.length > 1 ? `${differs.length} things changed` : differs[0]}`,
    ];
    panels.forEach((one, i) => {
      const { step, runs: counted } = session?.counted ?? {};
      const now = counted?.[i];
      const said = now
        ? `step ${step}: loss ${fixed(now.loss, 3)}, ${Math.round(100 * now.exact)} of 100 right`
        : "";
      one.update({
        title: titles[i] ?? "",
        said,
        look: session?.looks[i],
        text,
        answer: engine.TASKS[state.task].answer(text),
        kind: state.attention,
        heads: runs[i]?.settings.n_heads ?? 0,
      });
    });
  }

  function draw() {
    const state = all();
    const outdated = session && session.key !== keyOf(state);
    set(anew, { "data-none": !outdated });
    const limit = LIMITS[state.task === "numbers" ? 1 : 0];
    set(limits, { text: `your example: ${limit}` });
    Object.entries(controls).forEach(([name, control]) => control.update(state[name]));
    guess.update(state.guess);
    kind.update(state.attention);
    if (engine.tidy(state.task, input.value) !== typed()) input.value = typed();
    set(start, { text: session?.running ? "Pause" : session?.step ? "Go on" : "Start" });
    if (session?.step && !session.working) session.look(example());
    update();
    const done = session?.phase === "paused" && session.step && session.step % LAST === 0;
    if (refused) {
      refused = false; // said once
      return `Your example can only be ${limit}.`;
    }
    return sentence(
      shownState(),
      session && { ...session.counted, phase: done ? "done" : session.phase, outdated },
    );
  }

  const legend = html("p", {
    class: "lf-legend",
    text:
      "Dotted: the loss of guessing. Each map is one head of the last layer as it learns: one row per letter of the " +
      "answer (encoder: of the example), one column per letter it attends to, darker for larger weights; ^ begins, $ ends.",
  });
  const limits = html("span");
  const field = html(
    "label",
    { class: "lt-field" },
    room(limits, [`your example: ${LIMITS[0]}`]),
    input,
  );
  // an outcome with its reason, to be replaced by each of the others; the guess is the longest
  const cheat = { ...all(), ...engine.WHOLE, causal: false, guess: "blind" };
  const end = sentence(cheat, {
    phase: "done",
    step: 900,
    runs: [
      { loss: 0.04, exact: 1 },
      { loss: 0.01, exact: 0 },
    ],
  });
  const sentences = Object.entries(REASONS).map(([key, reason]) =>
    end
      .replace(REASONS["no causal mask blind"], reason)
      .replace(guessed.blind, guessed[key.split(" ").at(-1)])
      .replace("You guessed it", `You guessed “${guessed.blind}”`),
  );
  return {
    controls: [guess.element, group("the second run has", shown), buttons],
    picture: [...charts.map(({ picture }) => picture), ...panels.map(({ element }) => element)],
    more: [
      ...(get("question") === "all"
        ? [
            group("both runs", ["task", "base"]),
            group("the second run also has", ["order", "positions", "rate", "smoothing"]),
          ]
        : []),
      kind.element,
      field,
      button("Step", () => go(1)),
      legend,
    ],
    draw,
    longest: longest([...sentences, sentence({ ...cheat, task: "numbers" }, null)]),
    restart: drop,
    leave: drop,
  };
}

export default live({
  name: "LiveTraining",
  title: (get) => QUESTIONS[get("question")][0],
  state: {
    task: Object.keys(DEED),
    base: ["small", "wide", "deep"],
    example: { includes: (text) => /^[a-j0-9]{0,8}$/.test(text) },
    guess: ["", ...Object.keys(guessed)],
    seed: [0, 99, 1],
    scale: [],
    causal: [],
    residual: [],
    several: [],
    order: [],
    warmup: [],
    positions: ["waves", "learned", "none"],
    rate: [0.1, 10],
    smoothing: [0, 0.3],
    attention: Object.keys(MAPS),
  },
  build,
});
