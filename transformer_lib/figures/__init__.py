"""Figures of the book: one matplotlib style, a few plots, and live figures for notebooks and pages.

- ``style`` and ``plots`` need matplotlib,
- ``widgets`` needs anywidget (and matplotlib for the still picture that stands in for a live figure).

Nothing here is imported by ``import transformer_lib``.
"""
