"""The most memory that was held while something ran."""

from __future__ import annotations

import resource
from pathlib import Path
from types import TracebackType
from typing import Self

import torch

_CLEAR, _STATUS = Path("/proc/self/clear_refs"), Path("/proc/self/status")


class PeakMemory:
    """Peak megabytes between entry and exit: of the device on CUDA, else of the whole process (all loaded models).

    Where the system offers no resettable mark, the process's peak since its start.
    """

    def __init__(self, device: torch.device) -> None:
        self.device, self.mb = device, 0.0

    def __enter__(self) -> Self:
        if self.device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(self.device)
        else:
            _reset()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self.device.type == "cuda":
            self.mb = torch.cuda.max_memory_allocated(self.device) / 2**20
        else:
            self.mb = _peak_kb() / 2**10


def _reset() -> None:
    try:
        _CLEAR.write_text("5")
    except OSError:  # not Linux, or not allowed: the peak since the start stays
        return


def _peak_kb() -> float:
    if _STATUS.is_file():
        for line in _STATUS.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return float(line.split()[1])
    return float(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
