// PairedBootstrap: would other questions say the same? The difference between two models over all draws.
import {
  axes,
  canvas,
  choice,
  fixed,
  fluid,
  html,
  live,
  longest,
  percent,
  scale,
  set,
  slider,
  steps,
  sum,
  svg,
  toggle,
} from "./kit.js";

// ---- arithmetic

/** What one question adds to the difference: the shares of -1, 0 and +1. */
export function stepOf([both, first, second, neither], paired) {
  const total = both + first + second + neither;
  const [one, other] = [(both + first) / total, (both + second) / total];
  const [up, down] = paired
    ? [first / total, second / total]
    : [one * (1 - other), other * (1 - one)];
  return { low: -1, shares: [down, 1 - up - down, up] };
}

/** The sum of two independent numbers, whose shares are the convolution of theirs, without rare sums at the ends. */
export function add(a, b) {
  const shares = new Array(a.shares.length + b.shares.length - 1).fill(0);
  a.shares.forEach((p, i) =>
    b.shares.forEach((q, j) => {
      shares[i + j] += p * q;
    }),
  );
  const kept = (share) => share > 1e-12;
  const [first, last] = [shares.findIndex(kept), shares.findLastIndex(kept)];
  return { low: a.low + b.low + first, shares: shares.slice(first, last + 1) };
}

/** The sum of n such numbers, by doubling. */
export function times(step, n) {
  let [total, part] = [{ low: 0, shares: [1] }, step];
  for (let left = n; left > 0; left = Math.floor(left / 2)) {
    if (left % 2) total = add(total, part);
    part = add(part, part);
  }
  return total;
}

/** Where the middle 95 % begins and ends. */
export function interval({ low, shares }) {
  const at = (limit) => {
    let [i, below] = [0, shares[0]];
    while (below < limit && i < shares.length - 1) below += shares[(i += 1)];
    return low + i;
  };
  return [at(0.025), at(0.975)];
}

// ---- picture

const [HEIGHT, LEFT, TOP, BOTTOM] = [236, 12, 30, 180];
const ROUND = (p) => Number((10 ** (2 + p / 20)).toPrecision(2)); // twenty positions per factor of ten
const signed = (x) => (x > 0 ? `+${fixed(x, 1)}` : fixed(x, 1));

function build({ get, change, refresh }) {
  const [pairs, counts] = [get("pairs"), get("counts")];
  const which = choice({
    label: "models",
    options: pairs.map(([one, other], i) => [i, `${one} and ${other}`]),
    onInput: (pair) => change({ pair }),
  });
  const many = slider({
    label: "questions",
    last: 40,
    read: ROUND,
    find: (n) => 20 * (Math.log10(n) - 2),
    show: (n) => n.toLocaleString("en-US"),
    onInput: (questions) => change({ questions }),
  });
  const same = toggle({
    label: "both models get the same draw",
    onInput: (paired) => change({ paired }),
  });

  const points =
    (n) =>
    ({ low, shares }) => [(100 * low) / n, (100 * (low + shares.length - 1)) / n];
  // the same axis for all states, so that fewer questions look wider
  const reach = Math.ceil(
    Math.max(
      ...counts
        .flatMap((table) =>
          [true, false].flatMap((paired) => interval(times(stepOf(table, paired), 100))),
        )
        .map(Math.abs),
    ) * 1.25,
  );
  const [kept, turned] = [svg("path", { class: "pb-kept" }), svg("path", { class: "pb-turned" })];
  const [zero, middle] = [svg("line", { class: "pb-zero" }), svg("path", { class: "pb-middle" })];
  const frame = svg("g");
  const picture = canvas(640, HEIGHT, { role: "img" }, frame, kept, turned, zero, middle);
  const size = fluid(picture, HEIGHT, () => refresh());

  function sentence(pair, n, paired, [low, high], ahead, against) {
    const [one, other] = pairs[pair];
    const better =
      ahead === 0
        ? `${one} and ${other} are level`
        : `${ahead > 0 ? one : other} is ahead by ${fixed(Math.abs(ahead), 1)} points`;
    const said =
      low > 0 || high < 0
        ? "Zero is outside."
        : "Zero is inside: other questions might say otherwise.";
    const sign =
      ahead === 0
        ? ""
        : `, and ${against < 0.005 ? "less than 1\u00a0%" : percent(against)} don’t have it ahead`;
    return (
      `${better}. Of all draws of ${n.toLocaleString("en-US")} questions, ${paired ? "the same for both" : "one for each"}, ` +
      `95\u00a0% are between ${signed(low)} and ${signed(high)}${sign}. ${said}`
    );
  }

  function draw() {
    const [pair, n, paired] = [
      Math.min(get("pair"), pairs.length - 1),
      get("questions"),
      get("paired"),
    ];
    const table = counts[pair];
    const all = times(stepOf(table, paired), n);
    const [low, high] = interval(all).map((d) => (100 * d) / n);
    const ahead = (100 * (table[1] - table[2])) / sum(table);
    which.update(pair);
    many.update(n);
    same.update(paired);

    const x = scale([-reach, reach], [LEFT, size.width - LEFT]);
    const y = scale([0, Math.max(...all.shares)], [BOTTOM, TOP]);
    const ticks = steps(5).map((i) => Math.round(((i - 2) * reach) / 2.2));
    frame.replaceChildren(
      axes({
        x,
        y,
        left: LEFT,
        right: size.width - LEFT,
        top: TOP,
        bottom: BOTTOM,
        yTicks: [],
        xTicks: ticks.map((tick) => [tick, fixed(tick, 0)]),
        xLabel: `${pairs[pair].join(" − ")}, in points`,
        yLabel: "share of all draws",
      }),
    );
    const isTurned = (d) => d * ahead <= 0;
    const area = (wanted) =>
      all.shares
        .map((share, i) => [all.low + i, share])
        .filter(([d]) => isTurned(d) === wanted && Math.abs((100 * d) / n) <= reach)
        .map(([d, share]) =>
          `M${fixed(x((100 * (d - 0.5)) / n), 2)} ${BOTTOM}V${fixed(y(share), 1)}H${fixed(x((100 * (d + 0.5)) / n), 2)}V${BOTTOM}Z`.replaceAll(
            "−",
            "-",
          ),
        )
        .join("");
    set(kept, { d: area(false) });
    set(turned, { d: area(true) });
    set(zero, { x1: x(0), x2: x(0), y1: TOP, y2: BOTTOM + 4 });
    const [from, to] = [x(Math.max(low, -reach)), x(Math.min(high, reach))];
    set(middle, { d: `M${from} ${BOTTOM - 6}v-8m0 4H${to}m0 -4v8` });
    const against = sum(all.shares.filter((_, i) => isTurned(all.low + i)));
    const said = sentence(pair, n, paired, [low, high], ahead, against);
    set(picture, { "aria-label": said });
    return said;
  }

  return {
    controls: [which.element, many.element, same.element],
    picture: [picture],
    draw,
    longest: longest(pairs.map((_, pair) => sentence(pair, 10000, true, [-0.1, 0.1], -10, 0.001))),
  };
}

export default live({
  name: "PairedBootstrap",
  title: () => "Would other questions say the same?",
  build,
  state: { pair: [0, 5, 1], questions: [100, 10000, 1], paired: [] },
});
