"""How candidates and experiments are measured."""
