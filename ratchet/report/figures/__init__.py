"""Pictures: matplotlib's objects on the Agg canvas, with no state of pyplot and no display."""
