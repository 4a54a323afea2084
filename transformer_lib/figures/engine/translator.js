export { beamSearch } from "./beam.js";
export { BytePairs } from "./bytepairs.js";
export { cut, joined } from "./pieces.js";
export { english, german, valueOf } from "./numerals.js";
export { fromBase64, fromRounded } from "./rounded.js";
export { Interpreter } from "./interpreter.js";
export { Captions, Numbers, coded, plain } from "./slots.js";
export { Translator } from "./translation.js";
