"""The parts of examples/shuffled.py as processes that stop at a point, to be killed there.

python -m tests.server.shuffled_parts shuffler POINT TIMES PORT FOLDER N_MIN
python -m tests.server.shuffled_parts server POINT TIMES PORT FOLDER DEVICES
python -m tests.server.shuffled_parts devices PORT FOLDER KEY DEVICES TOKEN

A part that comes to its point for the given time says so, and waits for its end.
"""

import os
import signal
import sys
import time
from pathlib import Path

from examples import shuffled
from fedsel._internal.random import stream
from fedsel.server import Aggregator, Shuffler

shuffled.ROUNDS = 2
SEED = 11


def stop():
    """Say that the point is reached, and go no further."""
    os.write(1, b"reached\n")
    time.sleep(3600)


def stop_at(kind, name, times, *, before=False, only=bool):
    """Stop where a method of a part is called, or has just returned, for the given time."""
    method, left = getattr(kind, name), [times]

    def called(self, *arguments, **named):
        if before:
            stop()
        result = method(self, *arguments, **named)
        left[0] -= only(result)
        if left[0] == 0:
            stop()
        return result

    setattr(kind, name, called)


def any_result(_):
    return True


POINTS = {
    # A report is durable, a batch, a round or its end: the answer is not sent.
    "receive": lambda times: stop_at(Shuffler, "receive", times, only=any_result),
    "release": lambda times: stop_at(Shuffler, "release", times),
    "begin": lambda times: stop_at(Shuffler, "begin", times, only=any_result),
    "confirm": lambda times: stop_at(Shuffler, "confirm", times, only=any_result),
    # The server has the batch; has added it up; has stepped, and has not said so.
    "fetched": lambda times: stop_at(Aggregator, "receive_sealed", times, before=True),
    "received": lambda times: stop_at(Aggregator, "receive_sealed", times),
    "stepped": lambda times: stop_at(Aggregator, "step", times),
    "never": lambda times: None,
}


def be_devices(port, store, key, devices, token):
    """A process for each device; of ten, four are killed on their way and start again."""
    for number in range(shuffled.ROUNDS):
        task = {}
        while task.get("request") is None or shuffled.round_of(task) < number:
            time.sleep(0.02)
            task = shuffled.ask(port, do="task")
        todo = [(i, i // shuffled.ROUNDS % 10) for i in range(number, devices, shuffled.ROUNDS)]
        while todo:
            now, todo = todo[:4], todo[4:]
            children = {fork(port, store, key, i, crash, token, task): i for i, crash in now}
            for pid, i in children.items():
                status = os.waitpid(pid, 0)[1]
                if os.WIFSIGNALED(status):
                    todo.append((i, None))
                elif os.WEXITSTATUS(status):
                    sys.exit(f"device {i} has failed")


def fork(port, store, key, i, crash, token, task):
    """One device: it is killed once it is charged, once it has sent, or at some time."""
    pid = os.fork()
    if pid == 0:
        try:
            device = shuffled.Device(store, i, key)
            device.name = f"{token} of device {i}"
            device.client._entropy = stream(SEED, 0, i)
            if crash in (1, 2):
                ask = shuffled.ask

                def killed(*arguments, **question):
                    if crash == 2:
                        ask(*arguments, **question)
                    os.kill(os.getpid(), signal.SIGKILL)

                shuffled.ask = killed
            outcome = device.report(port, task)
            os._exit(0 if outcome in ("accepted", "duplicate", "late") else 1)
        finally:
            os._exit(1)
    if crash in (3, 4):
        time.sleep(0.002 * (1 + i % 9))
        os.kill(pid, signal.SIGKILL)
    return pid


def main(role, *words):
    if role == "devices":
        port, store, key, devices, token = words
        be_devices(int(port), Path(store), key, int(devices), token)
        return
    point, times, port, folder, number = words
    POINTS[point](int(times))
    part = {"shuffler": shuffled.be_shuffler, "server": shuffled.be_server}[role]
    part(int(port), Path(folder), int(number))
    stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
