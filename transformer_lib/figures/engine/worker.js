// Runs the engine in a Worker, made from the engine's own text, and calls its commands by name.

/** In the Worker: answers each call with the result of the command of that name. */
export function serve(commands) {
  self.onmessage = async ({ data: { call, name, given } }) => {
    try {
      const tell = (news) => self.postMessage({ call, news }); // any number of times before the answer
      self.postMessage({ call, result: await commands[name](given, tell) });
    } catch (error) {
      self.postMessage({ call, error: String(error) });
    }
  };
}

/** In the page: starts a Worker that runs `text`, whose last statement calls `serve`. */
export function employ(text) {
  const address = URL.createObjectURL(new Blob([text], { type: "text/javascript" }));
  const worker = new Worker(address);
  const waiting = new Map();
  worker.onmessage = ({ data: { call, news, result, error } }) => {
    const { resolve, reject, hear } = waiting.get(call);
    if (news !== undefined) return hear?.(news);
    waiting.delete(call);
    return error === undefined ? resolve(result) : reject(new Error(error));
  };
  worker.onerror = (event) => {
    // some pages aren't allowed to start a Worker
    event.preventDefault();
    waiting.forEach(({ reject }) => reject(new Error("the Worker did not start")));
  };
  let calls = 0;
  return {
    /** Calls a command; `hear` gets its news before the answer. */
    call: (name, given, hear) =>
      new Promise((resolve, reject) => {
        waiting.set(++calls, { resolve, reject, hear });
        worker.postMessage({ call: calls, name, given });
      }),
    stop() {
      worker.terminate();
      URL.revokeObjectURL(address);
    },
  };
}
