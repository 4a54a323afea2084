"""A question to the reader: commit, then see; kept in this browser, listed on a page, cleared."""

import json
import re

import pytest
from pages import chapters, pages, parsed, signs

OURS = "chapters/predictions.html"
KEY = "attention-built-by-hand:predictions"
KINDS = ("one", "some", "number", "line")
PAGES = [page for page in chapters() if page in pages() and signs(page, ".predict")]
FIRST, SIXTH = "chapters/01_soft_lookup.html", "chapters/06_many_heads.html"
REASON = "each column holds a single number"
RIGHT, WRONG = "1, 1, and 1, so it costs 17", "a third each, so it costs 5.67"
ANSWER_ALL = """
() => {
  for (const form of document.querySelectorAll(".predict-live")) {
    const [field] = form.querySelectorAll("input");
    if (field.type === "text") field.value = "7"; else field.click();
    form.requestSubmit();
  }
}
"""


def question(page, name: str):
    return page.locator(f"#predict-{name}")


def kept(page) -> dict:
    return json.loads(page.evaluate(f"localStorage.getItem('{KEY}')") or "{}")


def clear(page, name: str, marks: str) -> None:
    """Clear what is remembered: the browser asks first, and "Cancel" keeps all."""
    shown, button = page.locator(marks), page.get_by_role("button", name=name)
    count = shown.count()
    page.once("dialog", lambda dialog: dialog.dismiss())
    button.press("Enter")
    assert shown.count() == count > 0
    page.once("dialog", lambda dialog: dialog.accept())
    button.press("Enter")
    assert shown.count() == 0
    assert button.is_hidden()
    # Who works with the keyboard doesn't start at the top again.
    assert page.evaluate("document.activeElement !== document.body")


# --- without a script -----------------------------------------------------------------------------


@pytest.mark.parametrize("page", PAGES)
def test_every_question_is_there_with_and_without_scripts(book, page):
    for box in parsed(page).select(".predict"):
        form, still = box.select_one("form"), box.select_one("noscript")
        assert form["data-kind"] in KINDS, box["id"]
        assert f"predict-{form['data-of']}" == box["id"]
        choices = [choice.find("span").contents for choice in form.select(".predict-choice")]
        plain = ["".join(str(part) for part in parts[:-1]) for parts in choices]
        listed = [item.p.decode_contents() for item in still.select(":scope > ul > li")]
        assert listed == plain
        right = [choice.input["value"] for choice in form.select(".predict-right")]
        assert (len(right) == 1) == (form["data-kind"] == "one")
        if fold := still.select_one("details"):
            assert not fold.has_attr("open") and fold.summary.get_text() == "The answer"
            said = [bold.get_text() for bold in fold.select(":scope > ul:first-of-type strong")]
            assert not right or len(said) == len(right)
        else:
            assert form["data-kind"] == "line"


# --- with it --------------------------------------------------------------------------------------


@pytest.mark.slow
def test_by_mouse_a_wrong_answer(visit):
    page = visit(FIRST)
    box = question(page, "01-break-it-predict")
    reason = box.get_by_text(REASON)
    page.emulate_media(media="print")  # on paper the reasons are read
    assert reason.is_visible() and box.get_by_role("button").is_hidden()
    page.emulate_media(media="screen")
    assert reason.is_hidden() and box.locator("details").count() == 0
    box.get_by_text(WRONG).first.click()
    assert reason.is_hidden()
    box.get_by_role("button", name="This is my answer").click()
    assert reason.is_visible()
    assert box.get_by_text("even weights that add up to 1").is_visible()
    assert box.get_by_text(f"The answer: {RIGHT}.").is_visible()
    assert box.get_by_text(f"Yes: {RIGHT}.").is_hidden()
    assert box.locator("[type=submit]").is_hidden()
    assert box.locator("input:enabled").count() == 0
    stored = kept(page)["01-break-it-predict"]
    assert stored == {"said": [WRONG], "right": False, "answer": RIGHT}
    # It is still there tomorrow, and on the reader's own page.
    page.reload()
    assert reason.is_visible() and box.locator("input:checked").get_attribute("value") == WRONG
    box.get_by_role("link", name="All your predictions").click()
    page.wait_for_url(f"**/{OURS}")
    assert f"✗ You said: {WRONG}. The answer: {RIGHT}" in page.locator("article").inner_text()
    # It can be tried again where it stands, and the old answer is kept until there is a new one.
    page.go_back()
    box.get_by_role("button", name="Try again").click()
    assert reason.is_hidden() and box.locator("input:enabled:not(:checked)").count() == 3
    assert kept(page)["01-break-it-predict"]["said"] == [WRONG]
    box.get_by_text(RIGHT).first.click()
    box.get_by_role("button", name="This is my answer").click()
    assert kept(page)["01-break-it-predict"]["said"] == [RIGHT]


def test_by_keyboard_a_right_answer(visit):
    page = visit(FIRST)
    box = question(page, "01-break-it-predict")
    box.locator("input").first.focus()
    for key in ("ArrowDown", "ArrowDown", "Tab", "Enter"):
        page.keyboard.press(key)
    assert box.get_by_text(f"Yes: {RIGHT}.").is_visible()
    assert kept(page)["01-break-it-predict"]["right"] is True
    # The button is gone; who hears the page goes on where the verdict stands.
    assert page.evaluate("document.activeElement.className") == "predict-told"
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Try again"


@pytest.mark.slow
def test_a_number(visit):
    page = visit(FIRST)
    box = question(page, "01-the-gap-predict")
    box.get_by_label("Your number").fill("$8.50")
    page.keyboard.press("Enter")  # the browser says what it wants, and the question stays open
    message = box.locator("input").evaluate("(input) => input.validationMessage")
    assert (message, kept(page)) == ("Type a number.", {})
    for typed, verdict in {
        "7,99": "Near enough.",
        "0,008.5": "Near enough.",  # grouped, as 1,024 is
        "10.1": "The answer is a different number.",
    }.items():
        box.get_by_label("Your number").fill(typed)
        page.keyboard.press("Enter")
        assert box.get_by_text(verdict).is_visible()
        assert kept(page)["01-the-gap-predict"]["said"] == [typed]
        box.get_by_role("button", name="Try again").click()


@pytest.mark.slow
@pytest.mark.parametrize("name", [FIRST, "chapters/04_self_attention.html"])  # of each kind
def test_nothing_is_told_to_whom_has_not_answered(visit, name):
    page = visit(name)
    for form in page.locator(".predict-live").all():
        form.locator("[type=submit]").click()
        assert form.get_attribute("data-told") == "not"
        assert form.locator(".predict-told").is_hidden()
    assert kept(page) == {}


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["http", "file"])
def test_the_reader_s_own_page(visit, scheme):
    """All questions in order, each with its place; what was answered; printed, cleared."""
    soup = parsed(OURS)
    links = [link["href"] for link in soup.select("article li a")]
    there = [f"{page.removeprefix('chapters/')}#{box['id']}"
             for page in PAGES for box in parsed(page).select(".predict")]  # fmt: skip
    assert links == there and len(links) > 40
    page = visit(FIRST, scheme)
    page.evaluate(ANSWER_ALL)
    page.goto(page.url.replace(FIRST, SIXTH))
    page.evaluate(ANSWER_ALL)
    page.goto(page.url.replace(SIXTH, OURS))
    page.wait_for_function(f"localStorage.getItem('{KEY}')")  # comes late on a busy machine
    page.reload()
    answered = len(parsed(FIRST).select(".predict")) + len(parsed(SIXTH).select(".predict"))
    assert page.locator(".predict-kept").count() == answered
    text = page.locator(".your-predictions").inner_text()
    right = page.locator(".predict-kept").filter(has_text=re.compile("^✓")).count()
    assert f"You made {answered} of {len(links)} predictions." in text
    assert f"Right: {right} of the {answered} that can be right or wrong." in text
    first = page.locator("article li").filter(has_text="With dim=0, each column of the weights")
    assert "✗ You said: 0.60" in first.inner_text()
    page.evaluate("() => { window.print = () => { document.title = 'printed'; }; }")
    page.get_by_role("button", name="Print my predictions").click()
    assert page.title() == "printed"
    page.emulate_media(media="print")
    assert page.locator(".your-predictions button:visible").count() == 0
    assert page.locator(".predict-kept:visible").count() == answered
    page.emulate_media(media="screen")
    clear(page, "Clear my predictions", ".predict-kept")
    assert page.evaluate(f"localStorage.getItem('{KEY}')") is None
    page.locator("article li a").first.click()
    page.wait_for_url(f"**/{links[0]}")
    assert question(page, "01-the-gap-predict").locator("[type=submit]").is_visible()
