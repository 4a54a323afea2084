// Numbers below 10,000 in English and German words, as the bundled translator learned them.
import { numberWords } from "./tasks.js";

const BELOW = Array.from({ length: 100 }, (_, n) => numberWords(n));
const ONES = [
  "null",
  "eins",
  "zwei",
  "drei",
  "vier",
  "fünf",
  "sechs",
  "sieben",
  "acht",
  "neun",
  "zehn",
  "elf",
  "zwölf",
  "dreizehn",
  "vierzehn",
  "fünfzehn",
  "sechzehn",
  "siebzehn",
  "achtzehn",
  "neunzehn",
];
const TENS = [
  "zwanzig",
  "dreißig",
  "vierzig",
  "fünfzig",
  "sechzig",
  "siebzig",
  "achtzig",
  "neunzig",
];

const split = (n, size) => [Math.floor(n / size), n % size];

export function english(n) {
  if (n < 100) return BELOW[n];
  const [size, name] = n < 1000 ? [100, "hundred"] : [1000, "thousand"];
  const [count, rest] = split(n, size);
  return `${english(count)} ${name}${rest ? ` ${english(rest)}` : ""}`;
}

export function german(n, one = "eins") {
  if (n === 1) return one;
  if (n < 20) return ONES[n];
  if (n < 100) {
    const [tens, ones] = split(n, 10);
    return `${ones ? `${german(ones, "ein")}und` : ""}${TENS[tens - 2]}`;
  }
  const [size, name] = n < 1000 ? [100, "hundert"] : [1000, "tausend"];
  const [count, rest] = split(n, size);
  return `${german(count, "ein")}${name}${rest ? german(rest, one) : ""}`;
}

/** The number below 10,000 that an English text spells as the training did, or null. */
export function valueOf(text) {
  const [, thousands, hundreds, rest] =
    /^(?:(\w+) thousand ?)?(?:(\w+) hundred ?)?([\w-]*)$/.exec(text) ?? [];
  const part = (word, size) =>
    word ? size * (BELOW.includes(word) ? BELOW.indexOf(word) : NaN) : 0;
  const n = part(thousands, 1000) + part(hundreds, 100) + part(rest, 1);
  return n < 10000 && english(n) === text ? n : null;
}
