"""The client in C, compiled, and asked line by line: for tests and benchmarks."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
from fractions import Fraction
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from fedsel.device import Policy
from fedsel.device._budget import seconds_of

FOLDER = Path(__file__).parents[1] / "clients" / "c"
STRICT = ["-std=c99", "-Wall", "-Wextra", "-Wconversion", "-Werror", "-pedantic"]
SANITIZED = ["-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]


class NoCompiler(RuntimeError):
    """Nothing compiles C here."""


def compiler() -> str:
    """The C compiler: that of the environment's CC, or cc, gcc or clang."""
    for name in (os.environ.get("CC", ""), "cc", "gcc", "clang"):
        if name and (path := shutil.which(name)):
            return path
    raise NoCompiler("no C compiler: install gcc or clang, or name one in CC")


RUNNER = ("test/runner.c", "test/devices.c", "posix/posix.c")


def compiled(program: Path, *flags: str, main: tuple[str, ...] = RUNNER) -> Path:
    """Compile the sources and main files to a program; what the compiler says is the error."""
    sources = [*sorted((FOLDER / "src").glob("*.c")), *(FOLDER / name for name in main)]
    command = [compiler(), *STRICT, *flags, *map(str, sources), "-lm", "-o", str(program)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}:\n{done.stderr}")
    return program


class Runner:
    """The program test/runner.c: a question in a line, the answer in the next."""

    def __init__(self, program: Path) -> None:
        pipe = subprocess.PIPE
        self._process = subprocess.Popen([program], stdin=pipe, stdout=pipe, stderr=pipe, text=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.communicate()

    def ask(self, *parts: object) -> list[str]:
        """The parts of the answer; integers are asked in hexadecimal digits."""
        line = " ".join(f"{part:x}" if isinstance(part, int) else str(part) for part in parts)
        stdin, stdout = self._process.stdin, self._process.stdout
        if stdin is None or stdout is None:
            raise RuntimeError("the program has no pipes")
        try:
            stdin.write(line + "\n")
            stdin.flush()
        except BrokenPipeError:
            raise self._ended(line) from None
        answer = stdout.readline()
        if not answer:
            raise self._ended(line)
        return answer.split()

    def _ended(self, line: str) -> RuntimeError:
        errors = self._process.stderr.read() if self._process.stderr else ""
        return RuntimeError(f"the program ended at {line[:200]}: {errors[:4000]}")


def ratio(text: str | Fraction) -> tuple[int, int]:
    return Fraction(text).as_integer_ratio()


def charge(epsilon: Fraction) -> str:
    """An ε of a policy or an entry."""
    return f"{epsilon.numerator:x}/{epsilon.denominator:024x}"


def policy_question(policy: Policy) -> list[str]:
    """The question that gives the device a policy."""
    fields: dict[str, Any] = {"per": charge(Fraction(policy.per_report))}
    fields |= {"clip": bits(policy.clip), "bound": bits(policy.weight_bound)}
    fields |= {"epoch": f"{policy.reports_per_epoch:x}", "day": f"{policy.reports_per_day or 0:x}"}
    fields |= {"runs": f"{policy.runs:x}", "solutions": ",".join(policy.solutions)}
    for name in ("purpose", "recipient"):
        if (listed := getattr(policy, f"{name}s")) is not None:
            fields[f"{name}s"] = ",".join(_text(text) for text in listed)
        if getattr(policy, f"require_{name}"):
            fields[name] = "1"
    if policy.clock_tolerance is not None:
        fields["tolerance"] = f"{seconds_of('clock_tolerance', policy.clock_tolerance):x}"
    parts = [f"{name}={value}" for name, value in fields.items()]
    parts += [f"dimension={dim:x}" for dim in policy.dimensions]
    for limit in policy.limits:
        texts = f"{_text(limit.purpose)}:{_text(limit.recipient)}"
        parts.append(f"limit={charge(limit.epsilon)}:{limit.seconds or 0:x}:{texts}")
    for item in policy._items[1:]:
        texts = f"{_text(item.purpose)}:{_text(item.recipient)}"
        parts.append(f"menu={charge(Fraction(item.per_report or 0))}:{texts}")
    return ["policy", *parts]


def _text(text: str | None) -> str:
    return "*" if text is None else text.encode().hex()


def bits(x: float) -> str:
    """A double by its bits."""
    return struct.pack(">d", x).hex()


def answered(runner: Runner, task: dict[str, Any]) -> dict[str, Any]:
    """The C client's answer to a task of benchmarks/differential.py, as that writes it."""
    if "message" in task:
        reason = runner.ask("request", task["message"] or "-")[0]
        return {"request": {"DONE": "understood"}.get(reason, reason.lower())}
    if "text" in task:
        [accepted] = runner.ask("text", task["text"].encode().hex() or "-")
        return {"accepted": accepted == "1"}
    parts = runner.ask("report", task["request"])
    if len(parts) == 1:
        return {"refused": parts[0].lower()}
    seed, update = f"seed:{int(task['seed']):x}", task["update"]
    if update is None:
        update = f"answer:{task['answer'] % (1 << 64):x}"
    residual = task["residual"] or "00" * (len(update) // 4)
    parts = runner.ask("report", task["request"], update, residual, seed)
    _, numerator, denominator, _, _, _, keeps, reason, report, kept, used = parts
    if reason != "DONE":
        return {"refused": reason.lower()}
    return {
        "charge": str(Fraction(int(numerator, 16), int(denominator, 16))),
        "report": report,
        "residual": kept[1:] if keeps == "1" else None,
        "used": int(used, 16),
    }
