"""What will be run, decided before anything starts: families x lanes x scenarios, written down as plan.json."""
