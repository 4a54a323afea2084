// One block of memory for all numbers, and tensors as slices of it.
import { compiledProduct, plainProduct } from "./product.js";

/** Hands out numbers one after another, and frees them all at once, down to a mark. */
export class Memory {
  constructor({ megabytes = 64, wasm = true } = {}) {
    const block =
      wasm && typeof WebAssembly === "object"
        ? new WebAssembly.Memory({ initial: 16 * megabytes })
        : null;
    this.floats = new Float32Array(block ? block.buffer : 2 ** 20 * megabytes);
    const compiled = compiledProduct(block);
    this.wasm = compiled !== null;
    this.multiply = compiled ?? plainProduct(this.floats);
    this.top = 0;
  }

  /** Makes room for n zeros; returns the index of the first. */
  take(n) {
    const at = this.top;
    this.top += Math.ceil(n / 4) * 4;
    // the matrix product reads up to three numbers past the end of a row
    if (this.top + 4 > this.floats.length)
      throw new RangeError(`the model needs more than ${this.floats.length / 2 ** 18} megabytes`);
    this.floats.fill(0, at, this.top);
    return at;
  }

  /** Runs a function, then frees what it took. */
  within(run) {
    const mark = this.top;
    try {
      return run();
    } finally {
      this.top = mark;
    }
  }

  /**
   * C += A B, with A (m, k), B (k, n), C (m, n). A matrix is the index of its first number and its two strides
   * (to the next row, to the next column). Swapping the strides transposes it.
   */
  product(m, n, k, a, aRow, aColumn, b, bRow, bColumn, c, cRow) {
    if (bColumn === 1) return this.multiply(m, n, k, a, aRow, aColumn, b, bRow, c, cRow);
    return this.within(() => {
      // the product needs a matrix whose column stride is 1: copy B, or Aᵀ if that's smaller
      if (m >= 8)
        return this.multiply(
          m,
          n,
          k,
          a,
          aRow,
          aColumn,
          this.copy(k, n, b, bRow, bColumn),
          n,
          c,
          cRow,
        );
      const [across, { floats }] = [this.take(n * m), this]; // Cᵀ += Bᵀ Aᵀ
      this.multiply(n, m, k, b, bColumn, bRow, this.copy(k, m, a, aColumn, aRow), m, across, m);
      for (let i = 0; i < m; i++)
        for (let j = 0; j < n; j++) floats[c + i * cRow + j] += floats[across + j * m + i];
      return undefined;
    });
  }

  /** Copies a matrix so that its column stride is 1; returns the copy's index. */
  copy(rows, columns, at, row, column) {
    const [to, { floats }] = [this.take(rows * columns), this];
    for (let j = 0; j < columns; j++) {
      for (let i = 0, from = at + j * column; i < rows; i++, from += row)
        floats[to + i * columns + j] = floats[from];
    }
    return to;
  }
}

/** A tensor in the memory, with its gradient. */
export class Tensor {
  constructor(memory, shape, learn = true) {
    this.shape = shape;
    this.size = shape.reduce((product, n) => product * n, 1);
    this.at = memory.take(this.size);
    this.data = memory.floats.subarray(this.at, this.at + this.size);
    this.gradAt = learn ? memory.take(this.size) : null;
    this.grad = learn ? memory.floats.subarray(this.gradAt, this.gradAt + this.size) : null;
  }
}
