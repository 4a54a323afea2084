// Reads weights from a safetensors file: float32, or 8-bit matrices with a step size for each row.

/** The tensors [{ name, shape, data }] in the file's bytes (Uint8Array), as the library's from_int8 returns them. */
export function fromRounded(bytes) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const start = 8 + Number(view.getBigUint64(0, true));
  const { __metadata__: _, ...entries } = JSON.parse(
    new TextDecoder().decode(bytes.subarray(8, start)),
  );
  const read = ({ dtype, data_offsets: [from, to] }) => {
    const part = bytes.slice(start + from, start + to); // a copy, so that it starts at a multiple of 4
    if (dtype === "I8") return new Int8Array(part.buffer);
    if (dtype === "F32") return new Float32Array(part.buffer);
    throw new RangeError(`dtype must be I8 or F32, got ${dtype}`);
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
