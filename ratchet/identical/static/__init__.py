"""A verdict without a GPU: what a GPU run wrote down of each case, and what a later commit would change of that."""
