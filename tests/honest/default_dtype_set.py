"""Sets torch's defaults at import, as scripts do."""

import random
import warnings

import numpy as np
import torch

torch.manual_seed(1)
np.random.seed(1)
random.seed(1)
torch.set_grad_enabled(False)
torch.set_printoptions(precision=3)
torch.set_float32_matmul_precision("high")
warnings.filterwarnings("ignore")


def kernel(x):
    return torch.softmax(2 * x, -1) * x
