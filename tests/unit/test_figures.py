"""The style and the plots: contrast, content and errors."""

import subprocess
import sys

import matplotlib
import pytest
import torch
from figure_page import contrast
from matplotlib.colors import to_rgb

from transformer_lib.figures import plots, style

matplotlib.use("agg")
import matplotlib.pyplot as plt


@pytest.fixture(autouse=True)
def closed_figures():
    yield
    plt.close("all")


@pytest.mark.parametrize("ink", [style.INK, style.QUIET, style.ACCENT])
def test_ink_can_be_read_on_the_card(ink):
    assert contrast(to_rgb(ink), to_rgb(style.CARD)) >= 4.5  # WCAG 2.2, level AA


def test_matplotlib_is_imported_only_where_something_is_drawn():
    modules = ("widgets", "machine", "plots", "style", "engine")
    imports = "; ".join(f"import transformer_lib.figures.{name}" for name in modules)
    subprocess.run(
        [sys.executable, "-c", f"{imports}; import sys; assert 'matplotlib' not in sys.modules"],
        check=True,
    )


def test_use_sets_the_style():
    with plt.rc_context():
        plt.rcdefaults()
        style.use()
        assert plt.rcParams["savefig.facecolor"] == style.CARD


def test_attention_map_has_queries_on_rows_and_keys_on_columns():
    weights = torch.rand(2, 3).softmax(-1).requires_grad_()
    _, (left, right) = plt.subplots(1, 2)
    words = {"queries": ["a", "b"], "keys": ["x", "y", "z"]}
    ax = plots.attention_map(weights, **words, ax=right, title="Look")
    assert ax is right and not left.images
    assert [label.get_text() for label in ax.get_yticklabels()] == ["a", "b"]
    assert [label.get_text() for label in ax.get_xticklabels()] == ["x", "y", "z"]
    assert (ax.get_ylabel(), ax.get_xlabel()) == ("queries", "keys")
    assert "Look" in (ax.get_title(), ax.get_title(loc="left"))
    torch.testing.assert_close(
        torch.tensor(ax.images[0].get_array().tolist()), weights.detach(), rtol=0, atol=1e-6
    )
    assert ax.images[0].get_clim() == (0, 1)
    # row 1, column 2 is written at x = 2, y = 1
    number = next(text for text in ax.texts if text.get_position() == (2, 1))
    assert number.get_text() == f"{weights[1, 2].item():.2f}".removeprefix("0")


def test_a_large_map_shows_colors_only():
    words = [str(i) for i in range(plots.ROOM_FOR_NUMBERS + 1)]
    ax = plots.attention_map(torch.eye(len(words)), queries=words, keys=words)
    assert not ax.texts


def test_each_number_of_a_map_can_be_read_on_its_color():
    colors = matplotlib.colormaps["Blues"]
    for step in range(101):
        color = colors(step / 100)
        ink = plots.ink_on(color)
        assert contrast(to_rgb(color), to_rgb(ink)) >= 4.5, step


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([[0.5, 0.5]], r"shape .*\(2, 2\); got \(1, 2\)"),
        ([0.5, 0.5], r"shape .*got \(2,\)"),
        ([[0.5, 0.5], [1.5, -0.5]], "between 0 and 1; got -0.5 to 1.5"),
        ([[0.5, 0.5], [float("nan"), 0.5]], "between 0 and 1; got nan"),
    ],
)
def test_bad_arguments_are_refused(weights, message):
    with pytest.raises(ValueError, match=message):
        plots.attention_map(weights, queries=["a", "b"], keys=["x", "y"])
