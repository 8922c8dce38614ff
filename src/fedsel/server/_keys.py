"""The server's keys: what devices seal their reports for, and what signs what they are asked."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any, NamedTuple, final

from fedsel._internal.extras import needed
from fedsel._internal.paths import write_new
from fedsel.errors import check_kind, check_private
from fedsel.server._folder import CheckpointError
from fedsel.wire import Request, Sealing, SignedRound
from fedsel.wire._report import ADDED_BYTES


@final
class ServerKey:
    """A key pair: ``public`` goes to the owners of devices, the private half stays in its file.

    Owners write ``public`` into their policies (`fedsel.device.Policy`). It must come to them on a
    way that the shuffler cannot change: whoever gives devices a key of their own reads what they
    send, with the name beside it. Best have a key for each run, and delete its file after it:
    what was recorded on the way can then never be opened.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "key.pem"
    >>> ServerKey.create(file).public == ServerKey.load(file).public
    True
    """

    def __init__(self, private: Any) -> None:
        self._private = private
        self.public: str = private.public_key().public_bytes_raw().hex()

    def __repr__(self) -> str:
        return f"ServerKey(public={self.public!r})"

    @classmethod
    def generate(cls) -> ServerKey:
        """Make a key that is in memory alone."""
        with needed("shuffling", "sealed reports"):
            from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
        return cls(X25519PrivateKey.generate())

    @classmethod
    def of_secret(cls, secret: bytes, run: bytes) -> ServerKey:
        """The key of a run that follows from a secret of 32 bytes or more."""
        with needed("shuffling", "sealed reports"):
            from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
        return cls(X25519PrivateKey.from_private_bytes(_derived(secret, run, b"fedsel-sealing")))

    @classmethod
    def create(cls, file: str | Path) -> ServerKey:
        """A new key in a new file (PEM), for its owner alone, durable before it is returned."""
        key = cls.generate()
        from cryptography.hazmat.primitives import serialization as to

        written = key._private.private_bytes(
            to.Encoding.PEM, to.PrivateFormat.PKCS8, to.NoEncryption()
        )
        write_new(file, written)  # never in the place of another: devices may seal for that one
        return key

    @classmethod
    def load(cls, file: str | Path) -> ServerKey:
        """The key of a file, if nobody but its owner may read it."""
        with needed("shuffling", "sealed reports"):
            from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
            from cryptography.hazmat.primitives.serialization import load_pem_private_key
        path = Path(file)
        check_private("file", path)
        try:
            private = load_pem_private_key(path.read_bytes(), password=None)
        except (ValueError, TypeError):
            private = None
        if not isinstance(private, X25519PrivateKey):
            raise CheckpointError(f"the file {str(path)!r} holds no private X25519 key in PEM")
        return cls(private)

    def opened(self, request: bytes, batch: bytes) -> tuple[bytes, list[bytes]]:
        """The reports of a batch and their names, as `Aggregator.receive_many` takes them.

        A report is named by what it was sealed as, which says nothing of its client: the same batch
        again is recognised. In the place of what does not open there are zeros, which no server
        takes for a report.
        """
        check_kind("batch", batch, bytes)
        sealing = Sealing(request, self.public)
        report_bytes = Request.decode(request).format.size
        size = report_bytes + ADDED_BYTES
        whole = len(batch) - len(batch) % size
        sealed = [batch[i : i + size] for i in range(0, whole, size)]
        nothing = bytes(report_bytes)
        reports = [sealing.unseal(content, self._private) or nothing for content in sealed]
        return b"".join(reports) + b"\0" * (whole < len(batch)), sealed


@final
class SigningKey:
    """A key that signs what devices of a run work on: ``public`` is for policies, too.

    >>> key = SigningKey.of_secret(bytes(32), bytes(16))
    >>> parts = {"task": b"{}", "request": b"r", "weights": b"w", "preparing": b"null"}
    >>> SignedRound.verify(key.sign(1_800_000_000, **parts), key.public).covers(**parts)
    True
    """

    def __init__(self, private: Any) -> None:
        self._private = private
        self.public: str = private.public_key().public_bytes_raw().hex()

    def __repr__(self) -> str:
        return f"SigningKey(public={self.public!r})"

    @classmethod
    def of_secret(cls, secret: bytes, run: bytes) -> SigningKey:
        """The key of a run that follows from a secret of 32 bytes or more."""
        with needed("shuffling", "signed rounds"):
            from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
        return cls(Ed25519PrivateKey.from_private_bytes(_derived(secret, run, b"fedsel-signing")))

    def sign(self, time: int, **parts: bytes) -> bytes:
        """The signed round (`fedsel.wire.SignedRound`) of these parts, at this time."""
        return SignedRound.sign(self._private, time, **parts)


class RunKeys(NamedTuple):
    """What a run's reports are sealed for, and what signs what its devices are asked."""

    sealing: ServerKey
    signing: SigningKey

    @classmethod
    def of_secret(cls, secret: bytes, run: bytes) -> RunKeys:
        """The keys of a run that follow from a secret of 32 bytes or more."""
        return cls(ServerKey.of_secret(secret, run), SigningKey.of_secret(secret, run))

    @property
    def public(self) -> tuple[str, str]:
        """Both public keys, as policies name them."""
        return self.sealing.public, self.signing.public


def _derived(secret: bytes, run: bytes, purpose: bytes) -> bytes:
    return hashlib.blake2b(run, key=secret[:64], person=purpose, digest_size=32).digest()
