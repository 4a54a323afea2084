// The host of live figures: runs anywidgets in a static page, with no kernel and no network.
//
// A page carries the state of its widgets as JSON, and a <div class="live-host" data-model="…"> where
// each is shown. A widget is an ES module kept in that state under `_esm`; its default export has
// initialize({ model }) and render({ model, el }): anywidget's front-end module format. When a figure
// nears the viewport its module is imported and rendered. The div holds a picture of the figure's first
// state, which the style sheet shows where the figure isn't alive.
(() => {
  "use strict";

  // ---- State -------------------------------------------------------------------------------------

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

  /** Base64 text to the bytes that a trait of type Bytes arrives as in a notebook. */
  const bytes = (base64) =>
    new DataView(Uint8Array.from(atob(base64), (c) => c.charCodeAt(0)).buffer);

  /** The state of one model: buffers put back in their places, references turned into models. */
  function restore({ state, buffers = [] }) {
    const values = structuredClone(state);
    for (const { path, data } of buffers) {
      const last = path.at(-1);
      const parent = path.slice(0, -1).reduce((place, key) => (place[key] ??= {}), values);
      parent[last] = bytes(data);
    }
    const resolve = (value) => {
      if (typeof value === "string" && value.startsWith("IPY_MODEL_"))
        return modelOf(value.slice(10));
      if (Array.isArray(value)) return value.map(resolve);
      if (value?.constructor === Object) {
        return Object.fromEntries(
          Object.entries(value).map(([key, inner]) => [key, resolve(inner)]),
        );
      }
      return value;
    };
    return resolve(values);
  }

  // ---- Models ------------------------------------------------------------------------------------

  const models = new Map();

  /** One model per id, shared by all its views. */
  function modelOf(id) {
    if (!models.has(id)) {
      if (!stored[id]) throw new Error("the page holds no state for it");
      models.set(id, undefined); // a reference in a circle ends here
      models.set(id, makeModel(restore(stored[id])));
    }
    return models.get(id);
  }

  /** What a figure's module may ask of a model. There is no kernel: changes stay in the page. */
  function makeModel(values) {
    const listeners = new Map(); // event name -> Set of callbacks
    const names = (event) => event.split(/\s+/);
    const emit = (event, ...details) =>
      [...(listeners.get(event) ?? [])].forEach((call) => call(...details));
    const model = {
      get: (name) => values[name],
      set(name, value) {
        const changes = typeof name === "object" ? name : { [name]: value };
        const changed = Object.keys(changes).filter((key) => values[key] !== changes[key]);
        Object.assign(values, changes);
        changed.forEach((key) => emit(`change:${key}`, model, values[key]));
        if (changed.length) emit("change", model);
      },
      on: (event, call) =>
        names(event).forEach((name) => {
          listeners.set(name, (listeners.get(name) ?? new Set()).add(call));
        }),
      off: (event, call) =>
        (event ? names(event) : [...listeners.keys()]).forEach((name) => {
          if (call) listeners.get(name)?.delete(call);
          else listeners.delete(name);
        }),
      save_changes() {},
      send() {},
    };
    return model;
  }

  // ---- Modules -----------------------------------------------------------------------------------

  const modules = new Map(); // source text -> promise of the module's default export
  const started = new Map(); // model id -> promise of its module, initialized
  const styles = new Set();

  function load(source) {
    if (!modules.has(source)) {
      const address = URL.createObjectURL(new Blob([source], { type: "text/javascript" }));
      modules.set(
        source,
        import(address).then(({ default: widget }) =>
          typeof widget === "function" ? widget() : widget,
        ),
      );
    }
    return modules.get(source);
  }

  async function start(id) {
    const model = modelOf(id);
    const css = model.get("_css");
    if (css && !styles.has(css)) {
      styles.add(css);
      document.head.append(Object.assign(document.createElement("style"), { textContent: css }));
    }
    const widget = await load(model.get("_esm"));
    await widget.initialize?.({ model });
    return widget;
  }

  async function mount(figure) {
    const id = figure.dataset.model;
    const el = document.createElement("div");
    try {
      if (!started.has(id)) started.set(id, start(id));
      const widget = await started.get(id);
      figure.append(el);
      await widget.render?.({ model: modelOf(id), el });
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
    const name = stored[dataset.model]?.state.anchor;
    return (
      name &&
      location.hash
        .slice(1)
        .split("&")
        .some((part) => part.startsWith(`${name}=`))
    );
  };

  const figures = document.querySelectorAll(".live-host");
  if (!("IntersectionObserver" in window)) {
    figures.forEach(mount);
    return;
  }
  const awake = new Set(); // one batch of entries may hold a figure twice
  const near = new IntersectionObserver(
    (entries) => {
      for (const { isIntersecting, target } of entries) {
        const named = isNamed(target);
        if (awake.has(target) || (!isIntersecting && !named)) continue;
        for (
          let fold = target.closest("details");
          named && fold;
          fold = fold.parentElement.closest("details")
        )
          fold.open = true;
        awake.add(target);
        near.unobserve(target);
        mount(target);
      }
    },
    { rootMargin: "600px" },
  );
  figures.forEach((figure) => near.observe(figure));
})();
