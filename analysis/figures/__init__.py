"""Figures of a sweep, one function each."""
