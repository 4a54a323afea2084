// The library's byte-pair encoding: bytes, merged into pieces in the order in which its training merged them.
const END = 2; // <pad>, <bos>, <eos>
// What is merged by itself: English endings, letters, digits, other signs, each with the space before it; white space.
const RUN =
  /'(?:s|t|re|ve|m|ll|d)| ?\p{L}+| ?\p{N}+| ?[^\p{White_Space}\p{L}\p{N}]+|\p{White_Space}+(?!\P{White_Space})|\p{White_Space}+/gu;

// What counts as a word of a text: a run of letters and digits, or one other sign.
const WORD = /[\p{L}\p{N}_]+|[^\p{L}\p{N}_\p{White_Space}]/gu;

// A file of pieces is text, so each byte has a sign: itself, or where it cannot be seen one from 256 on.
const SEEN = (byte) => (byte > 32 && byte < 127) || (byte > 160 && byte !== 173);
const SIGNS = [];
for (let byte = 0, next = 256; byte < 256; byte++)
  SIGNS.push(String.fromCodePoint(SEEN(byte) ? byte : next++));
const BYTES = new Map(SIGNS.map((sign, byte) => [sign, byte]));

const signsOf = (text) => Array.from(new TextEncoder().encode(text), (byte) => SIGNS[byte]);
const textOf = (pieces) => {
  const bytes = Uint8Array.from(pieces.join(""), (sign) => BYTES.get(sign));
  return new TextDecoder("utf-8", { ignoreBOM: true }).decode(bytes); // what is no character becomes �
};

export class BytePairs {
  /** pieces[id] in signs; merges: pairs "a b", the first that was merged first; words: what the model has read, between spaces. */
  constructor({ pieces, merges, words = "" }) {
    this.pieces = pieces;
    this.words = new Set(words.split(" "));
    this.ids = new Map(pieces.map((piece, id) => [piece, id]));
    this.ranks = new Map(merges.map((pair, rank) => [pair, rank]));
  }

  /** The signs of a run, merged: of all neighbors that were ever merged, those first that were merged first. */
  merge(parts) {
    for (;;) {
      let [best, at] = [Infinity, -1];
      for (let i = 1; i < parts.length; i++) {
        const rank = this.ranks.get(`${parts[i - 1]} ${parts[i]}`) ?? Infinity;
        if (rank < best) [best, at] = [rank, i];
      }
      if (at < 0) return parts;
      parts.splice(at - 1, 2, parts[at - 1] + parts[at]);
    }
  }

  /** The pieces [{ id, text }] of a text, spaces shown as ▁. There is no unknown one: at worst a piece is a byte. */
  cut(text) {
    const runs = text ? ` ${text}`.match(RUN) : []; // the first word is the piece that it is inside a sentence
    return runs
      .flatMap((run) => this.merge(signsOf(run)))
      .map((piece) => ({ id: this.ids.get(piece), text: textOf([piece]).replaceAll(" ", "▁") }));
  }

  /** The different words of a text that the model has never read. */
  unseen(text) {
    return [...new Set(text.match(WORD))].filter((word) => !this.words.has(word));
  }

  /** One piece as text, spaces shown as ▁. */
  shown(id) {
    return textOf([this.pieces[id]]).replaceAll(" ", "▁");
  }

  /** The text of ids up to the end. */
  joined(ids) {
    const until = ids.indexOf(END);
    const text = textOf(
      (until < 0 ? ids : ids.slice(0, until)).filter((id) => id > END).map((id) => this.pieces[id]),
    );
    return text.startsWith(" ") ? text.slice(1) : text;
  }
}
