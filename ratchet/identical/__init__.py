"""Proofs that two sides run the same code, so that nothing need be timed: on a GPU by launches, on the host by differences."""
