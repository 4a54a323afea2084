"""The live figures' engine in a Worker of a page that is a local file."""

import pytest
from engine_page import CHECK, assert_same, given, make

from transformer_lib.figures.engine import source

pytestmark = pytest.mark.slow

COMMANDS = """
engine.serve({
  check(given) { const m = engine; CHECK },
  wasm: () => new engine.Memory({ megabytes: 1 }).wasm,
  async count({ to }, tell) { for (let i = 1; i < to; i++) tell(i); return to; },
  fail() { throw new RangeError("too much"); },
});
""".replace("CHECK", CHECK)


@pytest.fixture
def page(browser, tmp_path):
    path = tmp_path / "page.html"
    path.write_text(f"<!doctype html><title>Engine</title><script>{source()}</script>")
    context = browser.new_context()
    page = context.new_page()
    errors, asked = [], []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda message: errors.append(message.text))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(path.as_uri())
    page.evaluate("(text) => { window.text = text; }", source())
    page.evaluate("(commands) => { window.worker = engine.employ(text + commands); }", COMMANDS)
    yield page
    page.evaluate("worker.stop()")
    context.close()
    assert errors == []
    assert [url for url in asked if not url.startswith(("file:", "blob:"))] == []


def test_a_worker_computes_what_the_library_does(page):
    assert page.evaluate("worker.call('wasm')") is True
    for kind, settings in [("both", {}), ("decoder", {"pre_norm": False, "positions": "learned"})]:
        model = make(kind, **settings)
        answer = page.evaluate("(given) => worker.call('check', given)", given(model))
        assert_same(model, answer)


def test_a_worker_tells_answers_and_fails(page):
    assert page.evaluate("""async () => {
      const heard = [];
      const calls = [3, 5].map((to) => worker.call("count", { to }, (news) => heard.push(news)));
      return [await Promise.all(calls), heard];
    }""") == [[3, 5], [1, 2, 1, 2, 3, 4]]
    failed = page.evaluate("worker.call('fail').catch((error) => error.message)")
    assert failed == "RangeError: too much"
    assert "TypeError" in page.evaluate("worker.call('what').catch((error) => error.message)")


SESSION = """async () => {
  worker.stop();
  const news = { drawn: 0, said: [] };
  const state = { ...engine.WHOLE, task: "reverse", base: "small", seed: 0, causal: false };
  const script = text + "engine.serve(engine.trainingCommands())";
  const session = new engine.Session(script, engine.runsOf(state), {
    drawn() { news.drawn += 1; }, said() { news.said.push([session.step, session.phase]); } });
  worker = session;
  let example = "abc";
  BODY
}"""


def test_a_session_keeps_curves_looks_and_counts(page):
    found = page.evaluate(
        SESSION.replace(
            "BODY",
            """
      const first = session.train(50, () => example);
      await first;
      const { step, phase, losses, right, counted } = session;
      example = "dd";
      await session.look(example);
      const looks = session.looks.map(({ text, answer, maps }) => [text, answer, maps[
        "decoder.layers.0.self_attention"].shape]);
      return { step, phase, counted, looks, lengths: losses.map((l) => l.length),
        right: right.map((r) => r.map(([at]) => at)), said: news.said, drawn: news.drawn };""",
        )
    )
    assert (found["step"], found["phase"]) == (50, "paused")
    assert found["lengths"] == [50, 50]
    assert found["right"] == [[50], [50]]
    assert found["counted"]["step"] == 50
    assert len(found["counted"]["runs"]) == 2
    assert found["looks"] == [["dd", "dd", [4, 3, 3]]] * 2
    assert found["said"] == [[50, "running"], [50, "paused"]]
    assert found["drawn"] == 50 + 5 + 1  # each step, every ten steps, and the last look


def test_a_session_pauses_continues_and_stops(page):
    found = page.evaluate(
        SESSION.replace(
            "BODY",
            """
      const hear = session.hear.bind(session);
      session.hear = (told) => { hear(told); if (session.step === 3) session.pause(); };
      await session.train(1e6, () => example);
      const paused = [session.step < 100, session.phase];
      const at = session.step;
      await session.train(1, () => example);
      const one = session.step - at;
      const lost = session.train(1e6, () => example);
      session.stop();
      const { length } = news.said;
      await new Promise((done) => setTimeout(done, 100));
      worker = { stop() {} };
      return { paused, one, silent: news.said.length === length };""",
        )
    )
    assert found == {"paused": [True, "paused"], "one": 1, "silent": True}


def test_where_no_worker_starts_a_session_fails(page):
    found = page.evaluate(
        SESSION.replace(
            "BODY", "await session.train(5, () => example); return session.phase;"
        ).replace('text + "engine', '"}{" + "engine')
    )
    assert found == "failed"
