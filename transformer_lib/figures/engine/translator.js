export { beamSearch } from "./beam.js";
export { cut } from "./pieces.js";
export { english, german, valueOf } from "./numerals.js";
export { fromBase64, fromRounded } from "./rounded.js";
export { Interpreter } from "./interpreter.js";
export { Numbers, coded, plain } from "./slots.js";
export { Translator } from "./translation.js";
