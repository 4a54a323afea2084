// Makes style sheets and scripts small, and sets equations, for _ext/assets.py: a JSON question on the
// standard input, a JSON list of answers on the standard output. The folder with node_modules is the
// argument.
const { createRequire } = require("node:module");
const fetched = createRequire(`${process.argv[2]}/`);

async function small(code, options) {
  const { transform } = fetched("esbuild");
  return (await transform(code, { charset: "utf8", legalComments: "none", ...options })).code;
}

const KINDS = {
  /** A style sheet, without the rules that none of the words asks for. */
  async sheet(raw, words) {
    const { PurgeCSS } = fetched("purgecss");
    const purging = {
      css: [{ raw }],
      content: [{ raw: words.join(" "), extension: "html" }],
      defaultExtractor: (text) => text.split(" "),
      keyframes: true,
      // What live_figures.js and slim.py put into a page.
      safelist: { standard: [/^live-/, "data-state", "wide-figure"] },
    };
    const [{ css }] = await new PurgeCSS().purge(purging);
    return KINDS.rules(css);
  },
  /** Rules that are all asked for. */
  rules: (code) => small(code, { loader: "css", minify: true }),
  /** A script: its names at the top level stay, other scripts may know them. */
  script: (code) => small(code, { loader: "js", minify: true }),
  /** A module that names are added to: all of them stay. */
  module: (code) => small(code, { loader: "js", minifyWhitespace: true, minifySyntax: true }),
  /** An equation, in a line or on lines of its own. */
  equation([kind, latex]) {
    const options = { displayMode: kind === "display", throwOnError: false, strict: "ignore" };
    return fetched("katex").renderToString(latex, options);
  },
};

async function main() {
  let question = "";
  for await (const part of process.stdin) question += part;
  const { kind, texts, words } = JSON.parse(question);
  const answers = texts.map((text) => KINDS[kind](text, words));
  process.stdout.write(JSON.stringify(await Promise.all(answers)));
}

main();
