"""Speed, memory and accuracy as ratios within one run."""
