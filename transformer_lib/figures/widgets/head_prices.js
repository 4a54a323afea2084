// HeadPrices: what removing heads costs, alone, together, and after others. Every set of heads has been measured.
import {
  choice,
  fixed,
  heatMap,
  html,
  button,
  live,
  longest,
  room,
  set,
  steps,
  sum,
} from "./kit.js";

// ---- arithmetic

/** The prices of a set of removed heads. `table`: the measure without each set; bit i of a set's index is head i.
 *  alone: each head on its own. last: each head, removed after the others. added, together, lasts: the removed heads' sums. */
export function prices(table, gone) {
  const heads = steps(Math.log2(table.length));
  const alone = heads.map((i) => table[1 << i] - table[0]);
  const last = heads.map((i) => table[gone | (1 << i)] - table[gone & ~(1 << i)]);
  const here = heads.filter((i) => (gone >> i) & 1);
  return {
    here,
    alone,
    last,
    added: sum(here.map((i) => alone[i])),
    together: table[gone] - table[0],
    lasts: sum(here.map((i) => last[i])),
  };
}

/** The lowest and the highest of the three sums, over all sets of heads. */
export function range(table) {
  const all = steps(table.length).flatMap((gone) =>
    (({ added, together, lasts }) => [added, together, lasts])(prices(table, gone)),
  );
  return [Math.min(0, ...all), Math.max(...all)];
}

// ---- picture

const number = (x, digits) =>
  digits ? fixed(x, digits) : fixed(x, 0).replace(/\B(?=(\d{3})+$)/g, ","); // 1,864
const digitsOf = (table) => (table.every(Number.isInteger) ? 0 : 2);
const signed = (x, digits) =>
  Number(x.toFixed(digits)) > 0 ? `+${number(x, digits)}` : number(x, digits);

function build({ get, change }) {
  const [measures, layers, tables] = ["measures", "layers", "table"].map(get);
  const digits = tables.map(digitsOf);
  const n = Math.log2(tables[0].length);
  const heads = n / layers.length;
  const ranges = tables.map(range);
  const state = () => ({
    measure: Math.min(get("measure"), measures.length - 1),
    gone: get("gone") % 2 ** n,
  });

  const how = choice({
    label: "measured by",
    options: measures.map((name, i) => [i, name]),
    onInput: (measure) => change({ measure }),
  });
  const every = html(
    "div",
    { class: "hp-all" },
    button("Remove all", () => change({ gone: 2 ** n - 1 })),
    button("Put all back", () => change({ gone: 0 })),
  );

  const buttons = steps(n).map((i) =>
    set(
      button(`head ${(i % heads) + 1}`, () => change({ gone: state().gone ^ (1 << i) })),
      { "aria-label": `${layers[Math.floor(i / heads)]}, head ${(i % heads) + 1}` },
    ),
  );
  const maps = layers.map((name, k) => {
    const map = heatMap({
      caption: name,
      rows: ["alone", "last"],
      columns: steps(heads).map(String),
    });
    map.element
      .querySelectorAll("thead th")
      .forEach((cell, j) => cell.replaceChildren(buttons[k * heads + j]));
    map.element.classList.add("hp-map");
    return map;
  });
  const kinds = ["each alone, added up", "all of them together", "each as the last, added up"];
  const bars = kinds.map((text, k) => {
    const [value, bar, back] = [html("b"), html("i"), html("i", { class: "hp-back" })];
    const longestValue = ranges.flatMap((own, m) => own.map((x) => signed(x, digits[m])));
    return {
      value,
      bar,
      back,
      element: html(
        "div",
        { class: "hp-sum", "data-kind": k },
        html("span", { text }),
        room(value, longest(longestValue)),
        html("div", { class: "hp-track" }, bar, back),
      ),
    };
  });
  const picture = [
    html("div", { class: "hp-heads" }, ...maps.map(({ element }) => element), every),
    html("div", { class: "hp-sums" }, ...bars.map(({ element }) => element)),
  ];

  function sentence({ measure, gone }) {
    const [table, d, name] = [tables[measure], digits[measure], measures[measure]];
    const { here, added, together, lasts } = prices(table, gone);
    const now = `${name} ${number(table[gone], d)}`;
    if (!here.length) return `All ${n} heads are there: ${now}. Remove some to see what they cost.`;
    const rise = `${now} instead of ${number(table[0], d)}`;
    if (here.length === 1) {
      return `Without head ${(here[0] % heads) + 1} of ${layers[Math.floor(here[0] / heads)]}: ${rise}. Alone it costs ${number(together, d)}. Remove a second one.`;
    }
    return (
      `Without these ${here.length} heads: ${rise}. Together they cost ${number(together, d)}. Their prices alone add up to ${number(added, d)}, ` +
      `their prices as the last to ${number(lasts, d)}.`
    );
  }

  function draw() {
    const now = state();
    const { measure, gone } = now;
    const [table, d, [low, high]] = [tables[measure], digits[measure], ranges[measure]];
    const all = prices(table, gone);
    how.update(measure);
    const size = Math.max(...table.map((x) => Math.abs(x - table[0]))) / 2;
    maps.forEach((map, k) => {
      const own = (list) => list.slice(k * heads, k * heads + heads);
      map.update([own(all.alone), own(all.last)], { show: (x) => signed(x, d), size });
    });
    buttons.forEach((one, i) => set(one, { "aria-pressed": String(all.here.includes(i)) }));
    const width = (x) => `${((100 * x) / (high - low)).toFixed(2)}%`;
    [all.added, all.together, all.lasts].forEach((x, k) => {
      set(bars[k].value, { text: signed(x, d) });
      set(bars[k].bar, { "--left": width(-low), "--width": width(Math.max(0, x)) });
      set(bars[k].back, {
        "--left": width(Math.min(0, x) - low),
        "--width": width(-Math.min(0, x)),
      });
    });
    return sentence(now);
  }

  const some = [0, 1, 3, 2 ** n - 1, ...layers.map((_, k) => (2 ** heads - 1) * 2 ** (k * heads))];
  return {
    controls: measures.length > 1 ? [how.element] : [],
    picture,
    draw,
    longest: longest(
      measures.flatMap((_, measure) => some.map((gone) => sentence({ measure, gone }))),
    ),
  };
}

export default live({
  name: "HeadPrices",
  title: () => "What is a head worth?",
  build,
  state: { measure: [0, 2, 1], gone: [0, 255, 1] },
});
