// Small tasks that a Transformer learns while you watch: pairs of short texts, whose letters are the tokens.

const LETTERS = "abcdefghij";
const ONES = [
  "zero",
  "one",
  "two",
  "three",
  "four",
  "five",
  "six",
  "seven",
  "eight",
  "nine",
  "ten",
  "eleven",
  "twelve",
  "thirteen",
  "fourteen",
  "fifteen",
  "sixteen",
  "seventeen",
  "eighteen",
  "nineteen",
];
const TENS = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"];

export function numberWords(n) {
  if (n < 20) return ONES[n];
  return TENS[Math.floor(n / 10) - 2] + (n % 10 ? `-${ONES[n % 10]}` : "");
}

const word = (next, length = 8) =>
  Array.from({ length }, () => LETTERS[Math.floor(LETTERS.length * next())]).join("");
/** Numbers from 20 whose digits add up to a multiple of 5 are held out for testing. */
const held = (n) => ((n % 10) + Math.floor(n / 10)) % 5 === 0 && n >= 20;
const numbers = (wanted) =>
  Array.from({ length: 100 }, (_, n) => n).filter((n) => held(n) === wanted);
const one = (list, next) => String(list[Math.floor(list.length * next())]);
const ofLetters = { alphabet: LETTERS, longest: 8, train: word, test: word };

/** Each task draws sources for training and for testing, and knows the right answers. */
export const TASKS = {
  reverse: { ...ofLetters, answer: (text) => [...text].reverse().join("") },
  copy: { ...ofLetters, answer: (text) => text },
  sort: { ...ofLetters, answer: (text) => [...text].sort().join("") },
  numbers: {
    alphabet: "0123456789abcdefghijklmnopqrstuvwxyz-",
    longest: 13,
    answer: (text) => numberWords(Number(text)),
    train: (next) => one(numbers(false), next),
    test: (next) => one(numbers(true), next),
  },
};

const SPECIAL = 4; // <pad>, <bos>, <eos>, <unk>
export const vocabSize = ({ alphabet }) => SPECIAL + alphabet.length;
/** A text's ids, or null if it is empty or has a letter that's not in the alphabet. */
export function encode({ alphabet }, text) {
  const ids = [...text].map((letter) => SPECIAL + alphabet.indexOf(letter));
  return ids.length === 0 || ids.includes(SPECIAL - 1) ? null : ids;
}
/** The text of the ids before <eos>. */
export function decode({ alphabet }, ids) {
  const end = ids.indexOf(2);
  return (end < 0 ? ids : ids.slice(0, end)).map((id) => alphabet[id - SPECIAL] ?? "·").join("");
}

/** What a task can use of what someone types: letters of its alphabet, or a number below 100. */
export function tidy(name, text) {
  if (name === "numbers")
    return text
      .replace(/\D/g, "")
      .slice(0, 2)
      .replace(/^0(?=\d)/, "");
  const { alphabet, longest } = TASKS[name];
  return [...text.toLowerCase()]
    .filter((letter) => alphabet.includes(letter))
    .slice(0, longest)
    .join("");
}
