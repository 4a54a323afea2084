// A tokenizer of whole words and single characters: pieces[id] is the text of an id.
const SPECIAL = 4; // <pad>, <bos>, <eos>, <unk>
const UNKNOWN = 3;
const RUN = /[\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\p{Join_Control}]+|[^]/gu; // a word, or one other character

/** The pieces [{ id, text }] of a text: known words stay whole, others become characters, unknown characters <unk>. */
export function cut(text, pieces) {
  const idOf = new Map(pieces.map((piece, id) => [piece, id]).slice(SPECIAL));
  const parts = (text.match(RUN) ?? []).flatMap((run) => (idOf.has(run) ? [run] : [...run]));
  return parts.map((part) => ({ id: idOf.get(part) ?? UNKNOWN, text: part }));
}
