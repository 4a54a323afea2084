"""Figures of the book: one matplotlib style, a few plots, and live figures for notebooks and pages.

- ``style`` and ``plots`` need matplotlib,
- ``widgets`` needs anywidget and, for the still picture of a live figure, matplotlib.

Nothing here is imported by ``import transformer_lib``.
"""
