// Makes style sheets and scripts small for _ext/assets.py: a JSON question on the standard input, a
// JSON list of answers on the standard output. The folder with node_modules is the argument.
const { createRequire } = require("node:module");
const fetched = createRequire(`${process.argv[2]}/`);
const { transform } = fetched("esbuild");

const KINDS = {
  /** A style sheet, without the rules that none of the words asks for. */
  async sheet(raw, words) {
    if (!words) return { code: raw, loader: "css", minify: true };
    const { PurgeCSS } = fetched("purgecss");
    const [{ css }] = await new PurgeCSS().purge({
      css: [{ raw }],
      content: [{ raw: words.join(" "), extension: "html" }],
      defaultExtractor: (text) => text.split(" "),
      keyframes: true,
      // What live_figures.js and slim.py put into a page.
      safelist: { standard: [/^live-/, "data-state", "wide-figure"] },
    });
    return { code: css, loader: "css", minify: true };
  },
  /** A script: its names at the top level stay, other scripts may know them. */
  script: (code) => ({ code, loader: "js", minify: true }),
  /** A module that names are added to: all of them stay. */
  module: (code) => ({ code, loader: "js", minifyWhitespace: true, minifySyntax: true }),
};

async function main() {
  let question = "";
  for await (const part of process.stdin) question += part;
  const { kind, texts, words } = JSON.parse(question);
  const answers = texts.map(async (text) => {
    const { code, ...options } = await KINDS[kind](text, words);
    return (await transform(code, { charset: "utf8", legalComments: "none", ...options })).code;
  });
  process.stdout.write(JSON.stringify(await Promise.all(answers)));
}

main();
