"""Runs as SLURM jobs: submission, watching and steering on the login node; the job itself."""
