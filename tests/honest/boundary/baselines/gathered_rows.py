"""Sums of the rows of a table that indices name: a bag of embeddings."""

import torch


def kernel(table, at):
    return torch.nn.functional.embedding_bag(at.view(-1, 16), table, mode="sum")
