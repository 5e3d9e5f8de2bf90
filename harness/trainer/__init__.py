"""What runs inside verl: the estimator, the trainer that records every response, and a CPU mode."""
