// A reader commits to an answer, then sees the right one, the reason, and what others might think.
//
// All that is said stands in the page from the start, unseen (predict.py). What was answered is a list by question
// in this browser's own storage. Where storage is refused, nothing is remembered and everything else works. The page
// "Your predictions" shows the list, prints it, and clears it.
(() => {
  "use strict";

  const { recall, remember, make } = window.book; // of reader.js

  // ---- Memory --------------------------------------------------------------------------------------

  /** Question -> { said: [texts], right: true, false or null, answer: text }; whatever else is stored is left out. */
  function predictions() {
    const isOne = ([, kept]) =>
      Array.isArray(kept?.said) && kept.said.every((text) => typeof text === "string");
    return Object.fromEntries(Object.entries(recall("predictions", {})).filter(isOne));
  }

  // ---- A question ----------------------------------------------------------------------------------

  /** "1,024", "0.5", "0,5", "−3": what readers type. NaN for what is no number. */
  function numberIn(text) {
    const plain = text
      .trim()
      .replace(/[\s_'’]/g, "")
      .replace("−", "-")
      .replace(/%$/, "");
    if (!/^-?[\d.,]+$/.test(plain)) return NaN;
    const isGrouped = /^-?\d{1,3}(,\d{3})+(\.\d+)?$/.test(plain);
    return Number(isGrouped ? plain.replaceAll(",", "") : plain.replace(",", "."));
  }

  function start(form) {
    const { kind, of, answer } = form.dataset;
    const fields = [...form.querySelectorAll("input")];
    const told = form.querySelector(".predict-told");
    const hasChoices = kind === "one" || kind === "some";

    /** Null where that can't be said. */
    function isRight() {
      if (hasChoices)
        return fields.every((field) => field.checked === field.matches(".predict-right *"));
      if (kind === "line") return null;
      const { number, within } = form.dataset;
      return Math.abs(numberIn(fields[0].value) - number) <= within * 1.000001;
    }

    function show(isTold = true) {
      form.dataset.told = isTold ? { true: "yes", false: "no", null: "yes" }[isRight()] : "not";
      for (const field of fields) field[hasChoices ? "disabled" : "readOnly"] = isTold;
    }

    /** What is wrong with what stands there, for the browser to say where it stands. */
    function check() {
      let wrong = "";
      if (kind === "some" && !fields.some((field) => field.checked)) wrong = "Mark at least one.";
      if (kind === "number" && fields[0].value && Number.isNaN(numberIn(fields[0].value)))
        wrong = "Type a number.";
      fields[0].setCustomValidity(wrong);
    }
    form.addEventListener("input", check);
    check();

    form.addEventListener("submit", (event) => {
      event.preventDefault();
      if (form.dataset.told !== "not") return;
      const said = hasChoices
        ? fields.filter((f) => f.checked).map((f) => f.value)
        : [fields[0].value.trim()];
      remember("predictions", { ...predictions(), [of]: { said, right: isRight(), answer } });
      show();
      told.focus(); // the button is gone, and a screen reader reads on here
    });
    // Until there is a new answer, the old one is kept.
    form.querySelector(".predict-again").addEventListener("click", () => {
      form.reset();
      show(false);
      fields[0].focus();
    });

    const kept = predictions()[of]?.said;
    if (!kept?.length) return;
    if (hasChoices) {
      if (!kept.every((text) => fields.some((field) => field.value === text))) return; // the choices are others now
      for (const field of fields) field.checked = kept.includes(field.value);
    } else {
      fields[0].value = kept[0];
    }
    show();
  }

  document.querySelectorAll(".predict-live").forEach(start);

  // ---- The reader's own page -------------------------------------------------------------------------

  const summary = document.querySelector(".your-predictions");
  if (!summary) return;
  const count = make("p", { tabIndex: -1 }); // has the focus once the button is gone
  const paper = make("button", { type: "button" }, "Print my predictions");
  const clear = make("button", { type: "button" }, "Clear my predictions");
  const buttons = make("p", {}, paper, " ", clear);
  summary.append(count, buttons);
  paper.addEventListener("click", () => print());
  clear.addEventListener("click", () => {
    if (!confirm("Forget all your predictions?")) return;
    remember("predictions", null);
    list();
    count.focus();
  });

  function list() {
    const all = predictions();
    const links = [...document.querySelectorAll('article li a[href*="#predict-"]')];
    let made = 0,
      judged = 0,
      right = 0;
    for (const link of links) {
      const item = link.closest("li");
      item.querySelector(".predict-kept")?.remove();
      const kept = all[link.hash.slice("#predict-".length)];
      if (!kept) continue;
      made += 1;
      judged += kept.right !== null;
      right += kept.right === true;
      const mark = { true: "✓ ", false: "✗ ", null: "" }[kept.right] ?? "";
      const line = [`${mark}You said: `, make("strong", {}, kept.said.join("; "))];
      if (kept.right === false && kept.answer)
        line.push(". The answer: ", make("strong", {}, kept.answer));
      item.append(make("p", { className: "predict-kept" }, ...line));
    }
    const ofThem = judged ? ` Right: ${right} of the ${judged} that can be right or wrong.` : "";
    count.textContent = made
      ? `You made ${made} of ${links.length} predictions.${ofThem}`
      : "No prediction of yours is kept in this browser.";
    buttons.hidden = made === 0;
    summary.classList.add("predict-filled");
  }

  list();
})();
