// Weights from a file of safetensors: numbers as they are, or matrices in 8 bits with a step for each row.

/** The tensors [{ name, shape, data }] of the file's bytes (Uint8Array), as the library's from_int8 gives them. */
export function fromRounded(bytes) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const start = 8 + Number(view.getBigUint64(0, true));
  const { __metadata__: _, ...entries } = JSON.parse(
    new TextDecoder().decode(bytes.subarray(8, start)),
  );
  const read = ({ dtype, data_offsets: [from, to] }) => {
    const part = bytes.slice(start + from, start + to); // a copy begins at a multiple of 4
    if (dtype === "I8") return new Int8Array(part.buffer);
    if (dtype === "F32") return new Float32Array(part.buffer);
    throw new RangeError(`numbers of type ${dtype} are not read here`);
  };
  return Object.entries(entries)
    .filter(([name]) => !name.endsWith(".step"))
    .map(([name, entry]) => {
      const { dtype, shape } = entry;
      const numbers = read(entry);
      if (dtype !== "I8") return { name, shape, data: numbers };
      const step = read(entries[`${name}.step`]);
      return {
        name,
        shape,
        data: Float32Array.from(numbers, (x, i) => x * step[Math.floor(i / shape[1])]),
      };
    });
}

export const fromBase64 = (text) => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
