"""Profile what a check found changed, or one case by hand, and write its pages."""
