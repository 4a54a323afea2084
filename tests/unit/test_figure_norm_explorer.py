"""NormExplorer: its arithmetic is that of layer and batch norm, and any number can be selected."""

import pytest
import torch
import torch.nn.functional as F
from figure_page import choose, status, told

from transformer_lib.figures.widgets import NormExplorer

NORMS = ("layer", "batch", "real")
SENTENCES = [["a"], ["b", "c", "d", "e"], ["f", "g"]]  # 7 words of 3 features


def figure(**state):
    return NormExplorer(sentences=SENTENCES, vectors=torch.randn(7, 3).tolist(), **state)


def padded(shown):
    """The batch ``(B, T, d)``, and where its words are."""
    counts = torch.tensor([len(sentence) for sentence in shown.sentences])
    real = torch.arange(shown.length) < counts[:, None]
    batch = torch.zeros(*real.shape, 3, dtype=torch.float64)
    batch[real] = torch.tensor(shown.vectors, dtype=torch.float64)
    return batch, real


@pytest.mark.parametrize("length", [4, 5, 8])
@pytest.mark.parametrize("norm", NORMS)
def test_the_pages_norm_is_the_librarys_or_pytorchs(js, norm, length):
    shown = figure(norm=norm, length=length)
    page = torch.tensor(js(shown, "return m.normalized(given);"))
    batch, real = padded(shown)
    if norm == "layer":
        want = F.layer_norm(batch, (3,))
    elif norm == "batch":
        want = F.batch_norm(batch.mT, None, None, training=True).mT
    else:
        want = torch.zeros_like(batch)  # ignored padding stays 0
        want[real] = F.batch_norm(batch[real], None, None, training=True)
    torch.testing.assert_close(page.double(), want, rtol=1e-5, atol=1e-6)


@pytest.mark.slow
def test_its_sentence_and_its_marks_tell_which_numbers(show):
    page = show(NormExplorer(norm="layer", length=3))
    page.locator(".lf-heat").nth(1).locator("tbody tr").nth(2).locator("td").nth(1).click()
    assert told(page, "word", "feature") == [3, 2]
    said = {}
    for name, used in (("layer norm", 4), ("batch norm", 24), ("batch, real words", 6)):
        choose(page, name)
        page.get_by_role("slider").press("Home")
        before = status(page)
        page.get_by_role("slider").press("End")
        said[name] = (before, status(page))
        assert page.locator("td[data-pool]").count() == used
    changed = {name: before != after for name, (before, after) in said.items()}
    assert changed == {"layer norm": False, "batch norm": True, "batch, real words": False}
    assert said["layer norm"][0].startswith("Feature 3 of eat, 2.20,")
    assert "feature 3 of all 24 positions, 18 of them padding" in said["batch norm"][1]
    result = said["batch, real words"][1].split("becomes ")[1].split(",")[0]
    assert said["batch norm"][1].endswith(f"Without padding: {result}.")
