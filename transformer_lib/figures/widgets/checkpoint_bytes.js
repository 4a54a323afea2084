// CheckpointBytes: a safetensors file, byte by byte. Which bytes are one number, and what do its bits mean?
import { html, live, longest, set, stepper, steps, toggle } from "./kit.js";

// ---- arithmetic

/** Bytes, bits of the exponent and bits of the fraction of each type. */
const TYPES = { F32: [4, 8, 23], F16: [2, 5, 10], BF16: [2, 8, 7] };

/** The parts of a float and its value, from its bytes, the highest byte first. */
export function floatOf(bytes, dtype) {
  const [, many, rest] = TYPES[dtype];
  const bits = bytes.map((byte) => byte.toString(2).padStart(8, "0")).join("");
  const [sign, exponent, fraction] = [bits[0], bits.slice(1, 1 + many), bits.slice(1 + many)];
  const [e, part, bias] = [
    parseInt(exponent, 2),
    parseInt(fraction, 2) / 2 ** rest,
    2 ** (many - 1) - 1,
  ];
  const full = e === 2 ** many - 1; // infinite, or not a number
  const [power, factor] = e === 0 ? [1 - bias, part] : [e - bias, 1 + part];
  const size = full ? (part ? NaN : Infinity) : factor * 2 ** power;
  return { sign, exponent, fraction, power, factor, full, value: sign === "1" ? -size : size };
}

/** Where the header ends, and each number's name, type and offset, in the file's order. */
export function parse(file) {
  const end = 8 + file.slice(0, 8).reduceRight((sum, byte) => 256 * sum + byte, 0);
  const header = JSON.parse(String.fromCharCode(...file.slice(8, end)));
  const entries = Object.entries(header).sort(
    ([, a], [, b]) => a.data_offsets[0] - b.data_offsets[0],
  );
  const numbers = entries.flatMap(
    ([
      name,
      {
        dtype,
        shape,
        data_offsets: [from, to],
      },
    ]) =>
      steps((to - from) / TYPES[dtype][0]).map((k) => {
        const index = shape.map(
          (_, axis) =>
            Math.floor(k / shape.slice(axis + 1).reduce((a, b) => a * b, 1)) % shape[axis],
        );
        return {
          name: index.length ? `${name}[${index.join(", ")}]` : name,
          dtype,
          at: from + k * TYPES[dtype][0],
        };
      }),
  );
  return { end, numbers };
}

/** The bytes read for a number, and what they stand for. */
export function read({ file, end, number: { dtype, at }, fromBack, afterHeader }) {
  const begin = at + (afterHeader ? end : 0);
  const raw = file.slice(begin, begin + TYPES[dtype][0]);
  return { begin, raw, ...floatOf(fromBack ? [...raw].reverse() : raw, dtype) };
}

const hex = (byte) => byte.toString(16).padStart(2, "0");
const minus = (text) => String(text).replace("-", "−");
/** A number with five digits. */
export function show(x) {
  if (!Number.isFinite(x))
    return Number.isNaN(x) ? "not a number" : x < 0 ? "minus infinity" : "infinity";
  const [digits, power] = x.toExponential(4).split("e").map(Number);
  return power > 5 || power < -3
    ? `${minus(digits)} · 10^${minus(power)}`
    : minus(Number(x.toPrecision(5)));
}

// ---- picture

function build({ get, change }) {
  const file = get("file");
  const { end, numbers } = parse(file);
  const chosen = () => Math.min(get("number"), numbers.length - 1);
  const which = stepper({
    label: "number",
    last: numbers.length - 1,
    show: (k) => numbers[k].name,
    onInput: (number) => change({ number }),
  });
  const back = toggle({
    label: "lowest byte first",
    onInput: (on) => change({ from_back: on }),
  });
  const offsets = toggle({
    label: "offsets start after the header",
    onInput: (on) => change({ after_header: on }),
  });

  const cells = file.map((byte, i) =>
    html("span", {
      class: "cb-byte",
      "data-part": i < 8 ? "length" : i < end ? "header" : "numbers",
      text: i >= 8 && i < end ? String.fromCharCode(byte) : hex(byte),
    }),
  );
  const grid = html(
    "div",
    {
      class: "cb-grid",
      role: "img",
      onclick: ({ target }) => {
        const at = cells.indexOf(target) - end;
        if (at >= 0) change({ number: numbers.findLastIndex((one) => one.at <= at) });
      },
    },
    ...cells,
  );
  const parts = [
    ["length", "length of the header"],
    ["header", "header"],
    ["numbers", "numbers"],
  ];
  const legend = html(
    "div",
    { class: "lf-legend cb-legend" },
    ...parts.map(([part, text]) =>
      html("span", {}, html("i", { class: "cb-byte", "data-part": part }), text),
    ),
  );
  const rows = ["sign", "exponent", "fraction"].map((part) => {
    const [bits, says] = [html("code"), html("span")];
    return {
      bits,
      says,
      element: html("div", { class: "cb-row" }, html("span", { text: part }), says, bits),
    };
  });

  const reading = (k, fromBack, afterHeader) =>
    read({ file, end, number: numbers[k], fromBack, afterHeader });
  function sentence(k, fromBack, afterHeader) {
    const { name, dtype } = numbers[k];
    const [{ begin, raw, value }, stored] = [
      reading(k, fromBack, afterHeader),
      reading(k, true, true).value,
    ];
    const where = `${name}, ${dtype}: bytes ${begin} to ${begin + raw.length - 1} of the file, ${raw.map(hex).join(" ")}`;
    if (Object.is(value, stored)) return `${where}, are ${show(value)}.`;
    return `${where}, are read as ${show(value)}. The stored number is ${show(stored)}.`;
  }

  function draw() {
    const [k, fromBack, afterHeader] = [chosen(), get("from_back"), get("after_header")];
    which.update(k);
    back.update(fromBack);
    offsets.update(afterHeader);
    const { begin, raw, sign, exponent, fraction, power, factor, full } = reading(
      k,
      fromBack,
      afterHeader,
    );
    cells.forEach((cell, i) => set(cell, { "data-taken": i >= begin && i < begin + raw.length }));
    [sign, exponent, fraction].forEach((bits, i) => set(rows[i].bits, { text: bits }));
    set(rows[0].says, { text: sign === "1" ? "−1" : "1" });
    set(rows[1].says, { text: full ? "all ones: not finite" : `× 2^${minus(power)}` });
    set(rows[2].says, { text: full ? "–" : `× ${Number(factor.toPrecision(6))}` });
    set(grid, {
      "aria-label": `${file.length} bytes: 8 for the length of the header, ${end - 8} of header, ${file.length - end} of numbers`,
    });
    return sentence(k, fromBack, afterHeader);
  }

  return {
    controls: [which.element, back.element, offsets.element],
    picture: [
      html("div", {}, grid, legend),
      html("div", { class: "cb-parts" }, ...rows.map(({ element }) => element)),
    ],
    draw,
    longest: longest(
      steps(numbers.length).flatMap((k) =>
        [0, 1, 2, 3].map((way) => sentence(k, way % 2 === 1, way > 1)),
      ),
    ),
  };
}

export default live({
  name: "CheckpointBytes",
  title: () => "Which bytes of the file are one number?",
  build,
  state: { number: [0, 15, 1], from_back: [], after_header: [] },
});
