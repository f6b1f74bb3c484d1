"""The GPU and the machine around it: what they are, whether they are fit, and who holds them."""
