"""Plan, launch, run and record ablations of advantage baselines on verl."""
