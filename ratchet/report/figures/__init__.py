"""Pictures: matplotlib's objects on the Agg canvas, without pyplot's global state and without a display."""
