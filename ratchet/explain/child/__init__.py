"""What runs in processes of its own: targets of profilers, and traces."""
