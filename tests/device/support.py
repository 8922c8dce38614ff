"""What the tests of the device share."""


def primes_below(bound, count):
    """The largest primes below a bound ≤ 2^64, by a test that is exact there."""
    found = []
    candidate = bound - 1 - bound % 2
    while len(found) < count:
        if _is_prime(candidate):
            found.append(candidate)
        candidate -= 2
    return found


def _is_prime(n):
    """Miller and Rabin, with the bases that decide it below 2^64."""
    bases = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37)
    if any(n % p == 0 for p in bases):
        return n in bases
    odd = n - 1
    twos = (odd & -odd).bit_length() - 1
    odd >>= twos
    for base in bases:
        x = pow(base, odd, n)
        if x not in (1, n - 1) and all((x := x * x % n) != n - 1 for _ in range(twos - 1)):
            return False
    return True
