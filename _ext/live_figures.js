// The host of live figures: runs anywidgets in a static page (live_figures.py says what that holds).
//
// A widget is an ES module kept in its state under `_esm`; its default export has render({ model, el }):
// anywidget's front-end module format. When a figure nears the viewport its module is imported and
// rendered.
(() => {
  "use strict";

  const stored = {};
  for (const script of document.querySelectorAll(
    'script[type="application/vnd.jupyter.widget-state+json"]',
  )) {
    // What the models' modules and style sheets begin with alike stands once; see live_figures.py.
    const { state: models, beginnings = {} } = JSON.parse(script.textContent);
    for (const { state } of Object.values(models)) {
      for (const name of Object.keys(beginnings)) {
        if (name in state) state[name] = beginnings[name] + state[name];
      }
    }
    Object.assign(stored, models);
  }

  /** What a figure's module may ask of a model. There is no kernel: changes stay in the page. */
  function makeModel(values) {
    const listeners = new Map(); // event name -> Set of callbacks
    return {
      get: (name) => values[name],
      set(name, value) {
        if (values[name] === value) return;
        values[name] = value;
        listeners.get(`change:${name}`)?.forEach((call) => call());
      },
      on: (event, call) => listeners.set(event, (listeners.get(event) ?? new Set()).add(call)),
      off: (event, call) => listeners.get(event)?.delete(call),
      save_changes() {},
      send() {},
    };
  }

  const styles = new Set();

  async function mount(figure) {
    const el = document.createElement("div");
    try {
      if (!stored[figure.dataset.model]) throw new Error("the page holds no state for it");
      const { _css: css, _esm: source, ...state } = stored[figure.dataset.model].state;
      if (!styles.has(css)) {
        styles.add(css);
        document.head.append(Object.assign(document.createElement("style"), { textContent: css }));
      }
      const address = URL.createObjectURL(new Blob([source], { type: "text/javascript" }));
      const { default: widget } = await import(address);
      figure.append(el);
      await widget.render({ model: makeModel(state), el });
      figure.dataset.state = "live";
    } catch (error) {
      console.error(error);
      el.remove();
      fail(figure, error);
    }
  }

  /** Say what happened; the style sheet shows the picture. */
  function fail(figure, error) {
    const message = document.createElement("p");
    message.className = "live-host-message";
    message.textContent = `This figure could not come alive (${error.message}). Here is how it looks at first.`;
    figure.dataset.state = "failed";
    figure.prepend(message);
  }

  // ---- Start: each figure when it nears the viewport, or when the address names it -------------------

  /** #SoftLookup=… is a link to one state of one figure, which scrolls to itself once it is there. */
  const isNamed = ({ dataset }) => {
    const parts = location.hash.slice(1).split("&");
    return parts.some((part) => part.startsWith(`${stored[dataset.model]?.state.anchor}=`));
  };

  const awake = new Set(); // one batch of entries may hold a figure twice
  const near = new IntersectionObserver(
    (entries) => {
      for (const { isIntersecting, target } of entries) {
        const named = isNamed(target);
        if (awake.has(target) || (!isIntersecting && !named)) continue;
        if (named && target.closest("details")) target.closest("details").open = true;
        awake.add(target);
        near.unobserve(target);
        mount(target);
      }
    },
    { rootMargin: "600px" },
  );
  document.querySelectorAll(".live-host").forEach((figure) => near.observe(figure));
})();
