"""Public data of a round, as section 6 of SPEC.md says: words of a seed, signs, transforms."""

import hashlib
import math
import struct

LARGEST = struct.unpack("<f", bytes.fromhex("ffff7f7f"))[0]


def public_words(seed, purpose, count):
    digest = hashlib.sha256(purpose.encode()).digest()
    e = [seed % 2**32, seed >> 32, 0, 0, *struct.unpack("<4I", digest[:16])]
    h = 0x43B0D7E5

    def hashed(v):
        nonlocal h
        v ^= h
        h = h * 0x931E8875 % 2**32
        v = v * h % 2**32
        return v ^ v >> 16

    def mix(x, y):
        r = (0xCA01F9DD * x - 0x4973F715 * y) % 2**32
        return r ^ r >> 16

    pool = [hashed(v) for v in e[:4]]
    for i in range(4):
        for j in range(4):
            if i != j:
                pool[j] = mix(pool[j], hashed(pool[i]))
    for v in e[4:]:
        for j in range(4):
            pool[j] = mix(pool[j], hashed(v))
    g, s = 0x8B51F9DD, []
    for mixed in pool:
        v = mixed ^ g
        g = g * 0x58F38DED % 2**32
        v = v * g % 2**32
        s.append(v ^ v >> 16)
    key = (s[0] + (s[1] << 32), s[2] + (s[3] << 32))
    return [w for n in range(1, count // 4 + 2) for w in philox(n, *key)][:count]


def philox(n, k0, k1):
    c, low = [n, 0, 0, 0], 2**64 - 1
    for _ in range(10):
        a, b = 0xD2E7470EE14C6C93 * c[0], 0xCA5A826395121157 * c[2]
        c = [b >> 64 ^ c[1] ^ k0, b & low, a >> 64 ^ c[3] ^ k1, a & low]
        k0, k1 = (k0 + 0x9E3779B97F4A7C15) & low, (k1 + 0xBB67AE8584CAA73B) & low
    return c


def signs(d, seed, round_number, m):
    purpose = f"signs of round {round_number}" + (f", rotation {m}" if m else "")
    data = b"".join(struct.pack("<Q", w) for w in public_words(seed, purpose, -(-d // 8)))
    return [1 if byte >= 128 else -1 for byte in data[:d]]


def single(x):
    """The nearest single; beyond the largest, the largest."""
    return max(-LARGEST, min(LARGEST, unbounded(x)))


def unbounded(x):
    """The nearest single, with infinities."""
    try:
        return struct.unpack("<f", struct.pack("<f", x))[0]
    except OverflowError:
        return math.copysign(math.inf, x)


def hadamard(x):
    for _ in range((len(x) - 1).bit_length()):
        pairs = list(zip(x[::2], x[1::2], strict=True))
        x = [unbounded(a + b) for a, b in pairs] + [unbounded(a - b) for a, b in pairs]
    return x
