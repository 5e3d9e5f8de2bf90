"""Finds K for a recipe and a model: Optuna by ask and tell over the plan, the store and the launchers."""
