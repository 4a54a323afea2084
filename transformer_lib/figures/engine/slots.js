// What the translator can translate: numbers in words.
import { english, german, valueOf } from "./numerals.js";
import { cut } from "./pieces.js";

const UNKNOWN = 3;
const LATIN = /[\p{Script=Latin}0-9 .'!?-]/u;
/** Decodes text from an address; text that doesn't decode stays as it is. */
export const plain = (text) => {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
};
/** Encodes text for an address: escapes the characters that separate its parts. */
export const coded = (text) => text.replace(/[%,;:&=#+]/g, encodeURIComponent);
const listed = (things) => [...new Set(things)];
const more = (list, most) => (list.length > most ? ` and ${list.length - most} more` : "");

/** Numbers below 10,000. `pieces[id]` is the text of an id. */
export class Numbers {
  constructor(pieces) {
    Object.assign(this, {
      pieces,
      name: "number-words",
      key: "translator",
      parts: 6,
      megabytes: "0.96",
      heads: 4,
      longest: 44,
      field: "a number below 10,000 in English words",
      empty: "Type a number below 10,000 in English words.",
      examples: ["forty-two", "four thousand two hundred six", "three", "dozen", "ten thousand"],
    });
  }

  /** What the figure keeps of what someone types: Latin letters, digits, a few marks. */
  tidy(text) {
    return [...text.replace(/\s/g, " ")]
      .filter((letter) => LATIN.test(letter))
      .slice(0, this.longest)
      .join("");
  }

  /** What `tidy` drops, in a sentence; empty if it drops nothing. */
  dropped(text) {
    const odd = listed([...text.replace(/\s/g, " ")].filter((letter) => !LATIN.test(letter)));
    if (odd.length)
      return `Left out: ${odd.slice(0, 4).join(" ")}${more(odd, 4)}. It can’t read that.`;
    return [...text].length > this.longest ? `Left out: all after ${this.longest} characters.` : "";
  }

  /** What the model reads of that: its training text was all lowercase. */
  read(text) {
    return [...text.trim().toLowerCase()].slice(0, this.longest).join("");
  }

  cut(text) {
    return cut(text, this.pieces).map(({ id, text: piece }) => ({
      id,
      text: piece === " " ? "▁" : piece,
    }));
  }

  shown(id) {
    return this.pieces[id];
  }

  written(pieces) {
    return pieces.map(({ text }) => text).join("");
  }

  /** A sentence on what's odd about a text; empty for a number written as in training. */
  oddity(text) {
    const words = listed(text.match(/[^\s-]+/g) ?? []).filter(
      (word) => word.length < 2 || !this.pieces.includes(word),
    );
    const holes = listed(
      this.cut(text)
        .filter(({ id }) => id === UNKNOWN)
        .map((piece) => piece.text),
    );
    if (words.length) {
      const [word] = words;
      const short = word.length > 14 ? `${word.slice(0, 13)}…` : word;
      const without = holes.length
        ? `, and <unk> (unknown) for ${holes.slice(0, 3).join(" ")}${more(holes, 3)}`
        : "";
      return `“${short}”${more(words, 1)} never appeared in its training: it reads characters${without}.`;
    }
    return valueOf(text) === null
      ? "This isn’t a number below 10,000 as its training wrote them: “four hundred forty-two”."
      : "";
  }

  /** The words for a number in digits; empty for other texts. */
  inWords(text) {
    return /^\d{1,4}$/.test(text) ? english(Number(text)) : "";
  }

  /** What the answer should be; empty if it's right or nothing is. */
  wanted(text, answer) {
    const n = valueOf(text);
    return n === null || answer === german(n) ? "" : `It should be “${german(n)}”.`;
  }

  verdict(text, answer) {
    if (valueOf(text) === null) return "It always writes something.";
    return this.wanted(text, answer) ? "That’s wrong." : "That’s right.";
  }
}
