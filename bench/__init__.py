"""Speed, measured as ratios inside one run: never a timed test."""
