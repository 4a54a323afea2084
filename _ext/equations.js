// Sets equations for _ext/equations.py: a line of JSON in, a line of JSON out, until the input ends.
const katex = require(process.argv[2]);
const lines = require("node:readline").createInterface({ input: process.stdin });

lines.on("line", (line) => {
  const { latex, displayMode } = JSON.parse(line);
  let answer;
  try {
    answer = {
      html: katex.renderToString(latex, { displayMode, throwOnError: true, strict: "ignore" }),
    };
  } catch (error) {
    answer = { error: error.message };
  }
  process.stdout.write(`${JSON.stringify(answer)}\n`);
});
