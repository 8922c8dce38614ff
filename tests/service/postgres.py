"""A PostgreSQL of the tests' own: a cluster in a temporary folder, on a socket in it."""

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from contextlib import suppress
from pathlib import Path

BINARIES = [Path(name) for name in (shutil.which("postgres"),) if name]
BINARIES += sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"))


def installed():
    """Whether there is a PostgreSQL to start."""
    return bool(BINARIES)


def _unprivileged():
    """Who may run it: root may not."""
    if os.getuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    return None


def _is_dead(pid):
    """Whether nothing is left of a process but its entry."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True


class Cluster:
    """A server that can be killed and started again. ``durable``: it flushes what it commits.

    A kill of its processes loses nothing that was written, flushed or not; only a power cut does.
    """

    def __init__(self, durable=False):
        self.folder = Path(tempfile.mkdtemp(prefix="fedsel-pg-"))
        self.folder.chmod(0o755)
        self._data, self._owner = self.folder / "data", _unprivileged()
        self._process = None
        self._durable = durable
        if self._owner is not None:
            os.chown(self.folder, self._owner.pw_uid, self._owner.pw_gid)
        self._run("initdb", "-D", self._data, "-A", "trust", "-U", "fedsel", "-E", "UTF8", "-N")
        self.start()
        self._run("createdb", "-h", self.folder, "-U", "fedsel", "fedsel")

    @property
    def url(self):
        """Where it listens."""
        return f"postgresql://fedsel@/fedsel?host={self.folder}"

    def _as_owner(self):
        if self._owner is None:
            return {}
        return {"user": self._owner.pw_uid, "group": self._owner.pw_gid, "extra_groups": []}

    def _run(self, program, *arguments):
        subprocess.run(
            [BINARIES[-1].with_name(program), *arguments],
            check=True,
            capture_output=True,
            cwd=self.folder,
            **self._as_owner(),
        )

    def start(self):
        """Start it, and wait until it answers; more than once if an old process is still there."""
        for attempt in range(20):
            try:
                self._start()
                return
            except RuntimeError as error:
                if "still in use" not in str(error) or attempt == 19:
                    raise
                time.sleep(0.2)

    def _start(self):
        options = ["-c", "listen_addresses=", "-k", self.folder, "-c", "max_connections=60"]
        if not self._durable:
            options += ["-c", "fsync=off", "-c", "full_page_writes=off"]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [BINARIES[-1], "-D", self._data, *options],
                stdout=log,
                stderr=log,
                cwd=self.folder,
                start_new_session=True,
                **self._as_owner(),
            )
        deadline = time.monotonic() + 120
        while True:
            try:
                self._run("pg_isready", "-q", "-h", self.folder, "-U", "fedsel")
                return
            except subprocess.CalledProcessError:
                if time.monotonic() > deadline or self._process.poll() is not None:
                    raise RuntimeError((self.folder / "log").read_text()[-2000:]) from None
                time.sleep(0.05)

    def kill(self):
        """End all its processes at once, without a warning."""
        pid = self._process.pid
        children = [int(p) for p in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
        for one in (pid, *children):
            with suppress(ProcessLookupError):
                os.kill(one, signal.SIGKILL)
        self._process.wait()
        # One that was being forked ends by itself; the next server waits for its memory.
        for one in children:
            while Path(f"/proc/{one}").exists() and not _is_dead(one):
                time.sleep(0.01)

    def stop(self):
        """End it for good."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
            self._process.wait(60)
        shutil.rmtree(self.folder, ignore_errors=True)
