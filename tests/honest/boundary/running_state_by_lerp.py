"""The same average by another operator; an element on the line may fall on its other side."""

# baseline: running_state
# options: --input 512x256 --input 256


def kernel(x, state):
    state.lerp_(x.mean(0), 0.1)
    return x.gt(state)
