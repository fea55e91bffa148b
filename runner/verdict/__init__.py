"""The verdict: a function of plan and ledgers, and of nothing else."""
