"""Whether a response gives the right answer: extraction, exact comparison, symbolic comparison, rewards."""
