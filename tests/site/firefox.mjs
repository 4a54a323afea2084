// Opens the site in Firefox and prints what it finds wrong, as JSON; test_firefox.py says with what.

import { launch } from "puppeteer-core";

const { firefox, picture, pages, wayFrom } = JSON.parse(process.argv[2]);
const browser = await launch({
  browser: "firefox",
  executablePath: firefox,
  extraPrefsFirefox: { "ui.prefersReducedMotion": 1 },
});
const page = await browser.newPage();
let errors = [];
page.on("pageerror", ({ message }) => errors.push(message));
page.on("console", (message) => message.type() === "error" && errors.push(message.text()));

/** Nothing of the page before, which may be the same, is taken for the new one. */
async function open(address) {
  await page.goto("about:blank");
  errors = [];
  await page.goto(address);
}

async function wake(model) {
  const host = `[data-model="${model}"]`;
  await page.$eval(host, (e) => e.scrollIntoView({ block: "center" }));
  await page.waitForSelector(`${host} [role=group][aria-label] [aria-live]`);
}

/** Status and picture, once the page has drawn what it was asked to. */
const shown = (model) =>
  page.$eval(
    `[data-model="${model}"] [role=group]`,
    async (figure, picture) => {
      await new Promise((done) => requestAnimationFrame(() => setTimeout(done, 30)));
      return figure.querySelector("[aria-live]").innerText + eval(picture)(figure);
    },
    picture,
  );

/** Tries the keys of one control after another until the figure shows something else. */
async function moves(model, before) {
  const controls = `[data-model="${model}"] [role=group] :is(input:enabled:not([type=text]),
    select:enabled, [role=slider], [role=gridcell][tabindex='0'])`;
  for (const control of await page.$$(controls)) {
    const kind = await control.evaluate((e) => {
      if (!e.checkVisibility()) return null;
      e.scrollIntoView({ block: "center" });
      e.focus();
      return e.getAttribute("role") ?? e.type;
    });
    const keys = /checkbox|gridcell/.test(kind) ? [" "] : ["ArrowRight", "ArrowLeft"];
    for (const key of kind ? keys : []) {
      await page.keyboard.press(key);
      if ((await shown(model)) !== before) return true;
    }
  }
  return false;
}

async function lookAt(address) {
  await page.setViewport({ width: 390, height: 844 });
  await open(address);
  const { width, lost, models } = await page.evaluate(() => {
    for (const part of document.querySelectorAll(".deeper")) part.open = true;
    const equations = [...document.querySelectorAll("article .katex")];
    return {
      width: document.documentElement.scrollWidth,
      lost: equations.filter((e) => e.checkVisibility() && !e.getBoundingClientRect().width).length,
      models: [...document.querySelectorAll("[data-model]")].map((e) => e.dataset.model),
    };
  });
  const wrong = [];
  if (width > 390) wrong.push(`it is ${width} pixels wide`);
  if (lost) wrong.push(`${lost} equations without a width`);
  for (const model of models) {
    await wake(model);
    const before = await shown(model);
    if (!(await moves(model, before))) wrong.push(`${model} answers to no key`);
    await page.$$eval(`[data-model="${model}"] button`, (buttons) =>
      buttons.find((button) => button.textContent.trim() === "Reset").click(),
    );
    if ((await shown(model)) !== before) wrong.push(`${model} is not as it was after Reset`);
  }
  return [...wrong, ...errors];
}

/** Drags a handle, answers a question, opens a box, changes the theme, searches. */
async function goTheWay(address) {
  const wrong = [];
  await page.setViewport({ width: 1280, height: 900 });
  await open(address);
  await wake("SoftLookup-1");
  const before = await shown("SoftLookup-1");
  const handle = await page.$('[data-model="SoftLookup-1"] [role=slider]:not(input)');
  const { x, y } = await handle.clickablePoint();
  await page.mouse.move(x, y);
  await page.mouse.down();
  await page.mouse.move(x - 60, y + 30, { steps: 3 });
  await page.mouse.up();
  if ((await shown("SoftLookup-1")) === before) wrong.push("the handle cannot be dragged");

  const form = "#predict-01-break-it-predict form";
  const told = () =>
    page.$eval(`${form} .predict-told`, (e) => e.checkVisibility({ visibilityProperty: true }));
  if (await told()) wrong.push("the answer is told before the question");
  await page.click(`${form} .predict-right`);
  await page.click(`${form} button`);
  if (!(await told())) wrong.push("the answer is not told");
  await open(address);
  if (!(await told())) wrong.push("the answer is forgotten");
  await page.evaluate(() => localStorage.clear());

  await page.click("article details.admonition > summary");
  if (!(await page.$("article details.admonition[open]"))) wrong.push("a box stays closed");

  const papers = new Set();
  for (let time = 0; time < 3; time += 1) {
    await page.$eval(".theme-switch-button", (button) => button.click());
    papers.add(await page.$eval("body", (body) => getComputedStyle(body).backgroundColor));
  }
  if (papers.size !== 2) wrong.push(`papers: ${[...papers]}`);

  await page.keyboard.down("Control");
  await page.keyboard.press("k");
  await page.keyboard.up("Control");
  await page.waitForSelector("input[name=q]:focus");
  await page.keyboard.type("softmax");
  await Promise.all([page.waitForNavigation(), page.keyboard.press("Enter")]);
  await page.waitForSelector('#search-results a[href*="#term-softmax"]');
  return [...wrong, ...errors];
}

const found = {};
for (const address of pages ?? []) found[address] = await lookAt(address);
for (const address of wayFrom ?? []) found[address] = await goTheWay(address);
await browser.close();
console.log(JSON.stringify(found));
