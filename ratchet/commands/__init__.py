"""What each command does, read from top to bottom: load settings, make a plan, measure, judge, profile, write."""
