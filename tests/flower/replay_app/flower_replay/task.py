"""A model of two arrays, and what a client would like to tell: the test computes the same."""

import numpy as np

SEED, RATE, AVERAGING = 11, 0.3, 3.0
FURTHER = {"PS-PM": {"momentum": 0.5}, "RJ": {"reg": 0.01}}
"""What only the one or the other can do."""
SECRET = 0.42424242
EXAMPLES = 31337
START = {"a": np.zeros((2, 3), np.float32), "b": np.full(4, 0.25, np.float32)}
D = 10


def train(arrays, client):
    """Arrays after local training: a step that depends on the model and the client."""
    flat = np.concatenate([arrays["a"].reshape(-1), arrays["b"]])
    angle = flat + SECRET * (client + 1) + np.arange(D, dtype=np.float32)
    stepped = (flat - np.cos(angle)).astype(np.float32)
    return {"a": stepped[:6].reshape(2, 3), "b": stepped[6:]}


def update(weights, client):
    """What the mod makes of it: (model − trained), flattened."""
    w = weights.astype(np.float32)
    trained = train({"a": w[:6].reshape(2, 3), "b": w[6:]}, client)
    after = np.concatenate([trained["a"].reshape(-1), trained["b"]])
    return (w.astype(np.float64) - after).astype(np.float32)
