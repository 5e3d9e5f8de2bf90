"""`python -m harness.slurm.job`: the name of `harness.running.job.lead` in scripts that version 0.1 writes.

A job of that version that ends submits what a submit limit kept back, also runs that were frozen with today's code.
"""

import runpy

if __name__ == "__main__":
    runpy.run_module("harness.running.job.lead", run_name="__main__", alter_sys=True)
