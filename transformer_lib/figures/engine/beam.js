// Beam search for one source, as in the library: the best hypotheses continue, finished ones leave the beam.
import { State } from "./decoding.js";
import { BOS, EOS, pad } from "./transformer.js";

const penalty = (length, exponent) => ((5 + length) / 6) ** exponent;
const better = (a, b) => b.score - a.score;

function logSoftmax(logits) {
  const top = logits.reduce((x, y) => Math.max(x, y));
  const total = Math.log(logits.reduce((x, y) => x + Math.exp(y - top), 0)) + top;
  return Array.from(logits, (x) => x - total);
}

/** The indices of the `count` highest numbers, the highest first. */
function highest(gains, count) {
  const found = [];
  gains.forEach((gain, id) => {
    if (found.length === count && gain <= gains[found[count - 1]]) return;
    let at = found.length;
    while (at > 0 && gain > gains[found[at - 1]]) at -= 1;
    found.splice(at, 0, id);
    found.length = Math.min(found.length, count);
  });
  return found;
}

/** Copies row parents[i] of each cache to row i. */
function reorder({ caches }, parents) {
  for (const {
    self: {
      both: {
        data,
        shape: [rows, ...row],
      },
    },
  } of caches) {
    const size = row[0] * row[1];
    const old = data.slice(0, rows * size);
    parents.forEach((parent, i) =>
      data.set(old.subarray(parent * size, (parent + 1) * size), i * size),
    );
  }
}

/**
 * Returns the hypotheses { ids, score, rank } for a source (a list of ids), the best first: score is the
 * log-probability, rank is score / ((5 + length) / 6) ** length_penalty. Yields the number of tokens after each step.
 * The caller frees the memory.
 */
export function* beamSearch(model, source, { most, beam_size = 4, length_penalty = 0.6 }) {
  const rows = Array(beam_size).fill(source);
  const state = new State(model, pad(rows), most);
  let beam = [{ ids: [], score: 0, newest: BOS, row: 0 }];
  let ends = [];
  for (let length = 1; length <= most; length++) {
    const newest = rows.map((_, i) => (beam[i] ?? beam[0]).newest); // spare rows repeat the best one
    const gains = state.step(newest).map(logSoftmax);
    const all = beam.flatMap(({ ids, score }, row) =>
      highest(gains[row], 2 * beam_size).map((id) => ({
        ids,
        row,
        newest: id,
        score: score + gains[row][id],
      })),
    );
    const best = all
      .sort(better)
      .slice(0, 2 * beam_size)
      .map((one) => ({ ...one, ids: [...one.ids, one.newest] }));
    const isEnd = ({ newest: id }) => id === EOS || length === most;
    const ended = best
      .slice(0, beam_size)
      .filter(isEnd)
      .map(({ ids, score }) => ({ ids, score, rank: score / penalty(length, length_penalty) }));
    ends = [...ends, ...ended].sort((a, b) => b.rank - a.rank).slice(0, beam_size);
    beam = best.filter((one) => !isEnd(one)).slice(0, beam_size);
    const bound = beam.length ? beam[0].score / penalty(most, length_penalty) : -Infinity;
    if (bound <= (ends[beam_size - 1]?.rank ?? -Infinity)) break; // none can still beat the worst finished one
    reorder(
      state,
      rows.map((_, i) => (beam[i] ?? beam[0]).row),
    );
    yield length;
  }
  return ends;
}
