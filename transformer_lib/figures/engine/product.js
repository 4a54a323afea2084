// The matrix product C += A B, once in WebAssembly and once in plain JavaScript.
import {
  advance,
  assemble,
  atLeast,
  get,
  load,
  loadOne,
  move,
  multiplyAdd,
  plus,
  set,
  store,
  storeLane,
  times,
  when,
  whileAtLeast,
} from "./assembler.js";

const NAMES = [
  "m",
  "n",
  "k",
  "a",
  "aRow",
  "aColumn",
  "b",
  "bRow",
  "c",
  "cRow", // the parameters; addresses and strides in bytes
  "left",
  "count",
  "bAt",
  "cAt",
  "at",
  "bNow",
  "a0",
  "a1",
  "a2",
  "a3",
]; // the other local variables
const [m, n, k, a, aRow, aColumn, b, bRow, c, cRow, left, count, bAt, cAt, at, bNow, ...aNow] =
  NAMES.keys();
const [x, y0, y1] = [NAMES.length, NAMES.length + 1, NAMES.length + 2];
const sum = (row, vector) => NAMES.length + 3 + 2 * row + vector;

/**
 * Computes `rows` rows by 4 * `vectors` columns of C, whose sums stay in registers while k runs. If fewer than four
 * columns are left, only a part of the vector is stored.
 */
function tile(rows, vectors) {
  const [everyRow, everyVector] = [[...Array(rows).keys()], [...Array(vectors).keys()]];
  const cells = (write) => [
    set(at, get(cAt)),
    everyRow.map((row) => [
      everyVector.map((vector) => write(sum(row, vector), 16 * vector)),
      advance(at, cRow),
    ]),
  ];
  const part = (cell) => [
    when(atLeast(left, 4), store(get(at), get(cell))),
    when(
      [atLeast(left, 4), 0x45],
      [0, 1, 2].map((lane) => when(atLeast(left, lane + 1), storeLane(get(at), get(cell), lane))),
    ),
  ];
  return [
    cells((cell, offset) => set(cell, load(get(at), offset))),
    set(aNow[0], get(a)),
    everyRow.slice(1).map((row) => set(aNow[row], plus(aNow[row - 1], aRow))),
    set(bNow, get(bAt)),
    set(count, get(k)),
    whileAtLeast(
      count,
      1,
      everyVector.map((vector) => set([y0, y1][vector], load(get(bNow), 16 * vector))),
      everyRow.map((row) => [
        set(x, loadOne(get(aNow[row]))),
        everyVector.map((vector) =>
          set(sum(row, vector), multiplyAdd(x, [y0, y1][vector], sum(row, vector))),
        ),
        advance(aNow[row], aColumn),
      ]),
      advance(bNow, bRow),
      move(count, -1),
    ),
    cells((cell, offset) => (vectors === 1 ? part(cell) : store(get(at), get(cell), offset))),
    move(bAt, 16 * vectors),
    move(cAt, 16 * vectors),
    move(left, -4 * vectors),
  ];
}

const band = (rows) =>
  whileAtLeast(
    m,
    rows,
    set(bAt, get(b)),
    set(cAt, get(c)),
    set(left, get(n)),
    whileAtLeast(left, 8, tile(rows, 2)),
    whileAtLeast(left, 1, tile(rows, 1)),
    set(a, get(a), times(aRow, rows), 0x6a),
    set(c, get(c), times(cRow, rows), 0x6a),
    move(m, -rows),
  );

const bytes = assemble({ parameters: 10, integers: 10, vectors: 11, body: [band(4), band(1)] });

/** The product on a WebAssembly memory, or null if the browser doesn't have WebAssembly's vectors. */
export function compiledProduct(memory) {
  if (!memory || !WebAssembly.validate(bytes)) return null;
  const { run } = new WebAssembly.Instance(new WebAssembly.Module(bytes), { page: { memory } })
    .exports;
  return (rows, columns, depth, a_, aRow_, aColumn_, b_, bRow_, c_, cRow_) =>
    run(
      rows,
      columns,
      depth,
      4 * a_,
      4 * aRow_,
      4 * aColumn_,
      4 * b_,
      4 * bRow_,
      4 * c_,
      4 * cRow_,
    );
}

/** The same in JavaScript, on an array of floats, four columns at a time. */
export const plainProduct =
  (floats) => (rows, columns, depth, a_, aRow_, aColumn_, b_, bRow_, c_, cRow_) => {
    for (let i = 0; i < rows; i++) {
      const to = c_ + i * cRow_;
      for (let j = 0; j < columns; j += 4) {
        let [s0, s1, s2, s3] = [0, 0, 0, 0];
        for (
          let p = 0, one = a_ + i * aRow_, from = b_ + j;
          p < depth;
          p++, one += aColumn_, from += bRow_
        ) {
          s0 += floats[one] * floats[from];
          s1 += floats[one] * floats[from + 1];
          s2 += floats[one] * floats[from + 2];
          s3 += floats[one] * floats[from + 3];
        }
        floats[to + j] += s0;
        if (j + 1 < columns) floats[to + j + 1] += s1;
        if (j + 2 < columns) floats[to + j + 2] += s2;
        if (j + 3 < columns) floats[to + j + 3] += s3;
      }
    }
  };
