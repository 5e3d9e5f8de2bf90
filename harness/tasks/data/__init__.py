"""Training and evaluation sets in verl's format: where they come from, what is checked, how they are written."""
