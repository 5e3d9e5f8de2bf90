"""`python -m harness.slurm.after`: the name of `harness.running.job.handover` in scripts that version 0.1 writes."""

import runpy

if __name__ == "__main__":
    runpy.run_module("harness.running.job.handover", run_name="__main__", alter_sys=True)
