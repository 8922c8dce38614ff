"""fedsel at home in PyTorch: any module and loss, per-client gradients, private reports.

Needs the extra: ``pip install 'fedsel[torch]'``.
"""

from fedsel._internal.extras import needed

with needed("torch", "fedsel.torch"):
    import torch as _torch  # noqa: F401

from fedsel.torch._gradients import ClientUpdates, Local
from fedsel.torch._modules import replace_batchnorm
from fedsel.torch._settings import Communication
from fedsel.torch._trainer import FederatedTrainer

__all__ = ["ClientUpdates", "Communication", "FederatedTrainer", "Local", "replace_batchnorm"]
