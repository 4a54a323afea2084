// Training in a page: runs in a Worker, their curves so far, what they write and their attention weights.
import { employ } from "./worker.js";

const EVERY = 10; // steps between two updates of what the runs write
const MARK = 50; // steps between two counts of right answers

export class Session {
  /** `script` makes the Worker, `runs` goes to its `make`. drawn() is called to redraw, said() to update the status. */
  constructor(script, runs, { drawn, said }) {
    Object.assign(this, {
      drawn,
      said,
      step: 0,
      end: 0,
      phase: "running",
      text: null,
      looks: [],
      counted: null,
    });
    this.losses = runs.map(() => []); // of each run: [step, loss]
    this.right = runs.map(() => []); // of each run: [step, share]
    this.working = false;
    try {
      this.worker = employ(script);
      this.made = this.worker.call("make", runs);
    } catch (error) {
      // some pages aren't allowed to start a Worker; `train` reports it
      this.made = Promise.reject(error);
    }
  }

  get running() {
    return this.phase === "running";
  }

  /** Trains `most` more steps and calls `look(text())` every few steps; a call during training moves the end. */
  async train(most, text) {
    Object.assign(this, { phase: "running", end: this.step + most });
    if (this.working) return;
    this.working = true;
    try {
      await this.made;
      do {
        while (this.running && this.step < this.end) {
          const next = Math.min(this.end, this.step + EVERY - (this.step % EVERY));
          await this.worker.call("train", { steps: next - this.step }, (news) => this.hear(news));
          await this.look(text());
          if (this.step % MARK === 0) await this.count();
        }
        await this.count(); // while which the reader may go on
      } while (this.running && this.step < this.end);
      this.phase = "paused";
    } catch {
      this.phase = "failed";
    }
    this.working = false;
    this.said();
  }

  hear(news) {
    this.step = news[0].step;
    news.forEach(({ loss }, i) => this.losses[i].push([this.step, loss]));
    this.drawn();
  }

  /** Asks each run what it writes for the text now, once per text and step. */
  async look(text) {
    const wanted = `${this.step} ${text}`;
    if (this.text === wanted) return;
    this.text = wanted;
    const looks = await this.worker.call("look", { text });
    if (this.text === wanted) this.looks = looks.map((look) => ({ ...look, text }));
    this.drawn();
  }

  async count() {
    if (!this.step || this.counted?.step === this.step) return;
    const shares = await this.worker.call("exact", { n: 100 });
    shares.forEach((share, i) => this.right[i].push([this.step, share]));
    this.counted = {
      step: this.step,
      runs: shares.map((exact, i) => ({ exact, loss: this.losses[i].at(-1)[1] })),
    };
    this.said();
  }

  pause() {
    this.phase = "paused";
    this.worker.call("pause");
  }

  stop() {
    Object.assign(this, { drawn() {}, said() {} });
    this.worker?.stop();
  }
}
