"""Figures of the book: a matplotlib style, plots, and live figures for notebooks and pages.

They need matplotlib and anywidget, so ``import transformer_lib`` doesn't import them.
"""
