"""One module a verb: its arguments, its help and what it does. `harness --help` lists them in this order."""

VERBS = (
    "plan", "sweep", "train", "status", "logs", "cancel", "retry", "report", "ksearch", "eval", "score", "replay",
    "advise", "why", "data", "doctor", "sync", "gc",
)  # fmt: skip
