// The translator in a page: loaded when the reader asks for it, it writes one piece per frame.
import { Translator } from "./translation.js";

/** Loads a model's text from scripts beside the page, which work even when the page is a local file. */
async function beside(root, { name, parts }, told) {
  const here = () => globalThis.bookModels?.[name] ?? [];
  for (let i = 0; i < parts; i++) {
    told(i);
    if (here()[i] !== undefined) continue;
    const script = document.createElement("script");
    script.src = new URL(`${root}_static/models/${name}-${i}.js`, document.baseURI).href;
    await new Promise((resolve, reject) => {
      Object.assign(script, { onload: resolve, onerror: reject });
      document.head.append(script);
    }).finally(() => script.remove());
  }
  return here().join("");
}

export class Interpreter {
  /** slot: what it translates; { name, key, parts } matter here. root: the published site's root, or undefined in
   *  a notebook, where `ask` asks the kernel. changed(): called when there is something new to show. */
  constructor({ slot, root, ask, changed }) {
    Object.assign(this, {
      slot,
      root,
      ask,
      changed,
      phase: "idle",
      part: 0,
      translator: null,
      job: null,
      frame: 0,
      round: 0,
    });
  }

  get idle() {
    return this.phase === "idle" || this.phase === "failed";
  }

  async load() {
    if (!this.idle) return;
    const round = ++this.round;
    const now = (news) => {
      if (round === this.round) {
        Object.assign(this, news);
        this.changed();
      }
    };
    now({ phase: this.root === undefined ? "asked" : "loading", part: 0 });
    try {
      if (this.root === undefined) return void this.ask(this.slot.key);
      const text = await beside(this.root, this.slot, (part) => now({ part }));
      if (round === this.round) this.arrived(text);
    } catch {
      now({ phase: "failed" });
    }
  }

  arrived(text) {
    this.translator = new Translator(text);
    this.phase = "ready";
    this.changed();
  }

  /** Takes the kernel's answer. */
  hear(content) {
    const text = content?.[this.slot.key];
    if (text && this.phase === "asked") this.arrived(text);
  }

  /** The job of this name, { pieces, done }, which the first call starts; show(token): what to keep of a token. */
  translate(name, source, options, show) {
    if (!this.translator || !source.length) return null;
    if (this.job?.name === name) return this.job;
    cancelAnimationFrame(this.frame);
    const job = { name, pieces: [], done: false };
    const tokens = this.translator.write(source, options);
    const on = () => {
      const { value, done } = tokens.next();
      if (value) job.pieces.push(show(value));
      job.done = done;
      if (!done) this.frame = requestAnimationFrame(on);
      this.changed();
    };
    this.frame = requestAnimationFrame(on);
    return (this.job = job);
  }

  /** Stops writing, but keeps the model. */
  rest() {
    cancelAnimationFrame(this.frame);
    this.job = null;
  }

  stop() {
    this.rest();
    Object.assign(this, { phase: "idle", part: 0, translator: null, round: this.round + 1 });
  }
}
