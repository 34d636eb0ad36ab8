"""These helpers generate random batches for the tests of losses, and compare tensors with expected arrays."""

import numpy as np
import torch
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

DTYPES = st.sampled_from([np.float32, np.float64])


def close(ours, expected):
    np.testing.assert_allclose(ours.detach().double().numpy(), expected, rtol=1e-6, atol=1e-6)


@st.composite
def batches(draw, low=-4.0):
    """logprobs, old logprobs and advantages (rows, tokens), with a mask: numpy, in float32 or float64."""
    shape = (draw(st.integers(1, 4)), draw(st.integers(1, 5)))
    dtype = draw(DTYPES)
    logprobs = arrays(dtype, shape, elements=st.floats(low, 0, width=32))
    advantages = arrays(dtype, shape, elements=st.floats(-3, 3, width=32))
    return draw(logprobs), draw(logprobs), draw(advantages), draw(arrays(np.bool_, shape))


def tensors(*values):
    return [torch.from_numpy(value) for value in values]


def double(*values):
    return [value.astype(np.float64) for value in values]


def table(*rows):
    return torch.tensor(rows, dtype=torch.float64)
