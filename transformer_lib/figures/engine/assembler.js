// Writes WebAssembly. Instructions are numbers and nested lists of numbers; flat(Infinity) turns them into bytes.

/** An integer in groups of seven bits, the lowest first (LEB128). */
const unsigned = (n) => (n < 128 ? [n] : [(n & 127) | 128, ...unsigned(n >>> 7)]);
const signed = (n) => (n >= -64 && n < 64 ? [n & 127] : [(n & 127) | 128, ...signed(n >> 7)]);
const name = (text) => [
  ...unsigned(text.length),
  ...[...text].map((letter) => letter.charCodeAt(0)),
];
const simd = (code, ...rest) => [0xfd, unsigned(code), rest];

// ---- instructions; x is the index of a local variable
export const get = (x) => [0x20, unsigned(x)];
export const set = (x, ...value) => [value, 0x21, unsigned(x)];
export const integer = (n) => [0x41, signed(n)];
export const plus = (x, y) => [get(x), get(y), 0x6a];
export const times = (x, n) => [get(x), integer(n), 0x6c];
/** x += y, where y is a local variable. */
export const advance = (x, y) => set(x, plus(x, y));
/** x += n, where n is a number. */
export const move = (x, n) => set(x, get(x), integer(n), 0x6a);
export const when = (condition, ...body) => [condition, 0x04, 0x40, body, 0x0b];
export const atLeast = (x, n) => [get(x), integer(n), 0x4e];
/** Repeats the body as long as x is at least n. */
export const whileAtLeast = (x, n, ...body) =>
  when(atLeast(x, n), 0x03, 0x40, body, atLeast(x, n), 0x0d, 0, 0x0b);

// ---- four floats at once; an address is an instruction that leaves one on the stack
export const load = (address, offset = 0) => [address, simd(0, 2, unsigned(offset))];
export const loadOne = (address) => [address, simd(9, 2, 0)]; // one float, four times
export const store = (address, value, offset = 0) => [
  address,
  value,
  simd(11, 2, unsigned(offset)),
];
export const storeLane = (address, value, lane) => [address, value, simd(90, 2, 4 * lane, lane)];
// sum + x * y, rounded twice. A fused multiply-add is faster, but not in every browser, and it would change the run.
export const multiplyAdd = (x, y, sum) => [get(sum), get(x), get(y), simd(0xe6), simd(0xe4)];

const section = (id, ...items) => {
  const bytes = [unsigned(items.length), items].flat(Infinity);
  return [id, unsigned(bytes.length), bytes];
};

/**
 * The bytes of a module with one function, `run`, which takes integers, returns nothing and works on the imported
 * memory `page.memory`. Its local variables: first the parameters, then `integers`, then `vectors` of four floats.
 */
export function assemble({ parameters, integers, vectors, body }) {
  const code = [2, unsigned(integers), 0x7f, unsigned(vectors), 0x7b, body, 0x0b].flat(Infinity);
  return new Uint8Array(
    [
      0,
      0x61,
      0x73,
      0x6d,
      1,
      0,
      0,
      0,
      section(1, [0x60, unsigned(parameters), Array(parameters).fill(0x7f), 0]),
      section(2, [name("page"), name("memory"), 2, 0, 1]),
      section(3, 0),
      section(7, [name("run"), 0, 0]),
      section(10, [unsigned(code.length), code]),
    ].flat(Infinity),
  );
}
