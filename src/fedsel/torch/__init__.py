"""fedsel at home in PyTorch: any module and loss, per-client gradients, private reports.

Needs the extra: ``pip install 'fedsel[torch]'``.
"""

try:
    import torch as _torch  # noqa: F401
except ImportError as error:  # pragma: no cover - the tests have torch
    raise ImportError("fedsel.torch needs PyTorch: pip install 'fedsel[torch]'") from error

from fedsel.torch.gradients import ClientUpdates, Local
from fedsel.torch.trainer import Communication, FederatedTrainer

__all__ = ["ClientUpdates", "Communication", "FederatedTrainer", "Local"]
