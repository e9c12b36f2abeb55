"""The command beside libforeline, for what the library has no function for."""
from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from typing import Any, Callable, Mapping, Optional, Sequence

from ._library import Error, Value, error_of, prefixes, settings_of

_STATUS_OF_EXIT = {2: "usage"}


def find(name: str = "foreline") -> str:
    """Path of the command: of the library's prefix, else of $PATH."""
    for prefix in prefixes():
        path = prefix / "bin" / name
        if os.access(path, os.X_OK):
            return str(path)
    found = None if "FORELINE_PREFIX" in os.environ else shutil.which(name)
    if not found:
        raise Error(f"command {name} not found; set FORELINE_PREFIX to where foreline is installed", "io")
    return found


def options(values: Mapping[str, Optional[Value]]) -> list[str]:
    """As a command line has them: flags without a value, {old: new} as often as it has entries."""
    out = []
    for name, entries in values.items():
        if isinstance(entries, dict):
            quote = {old: f'"{old}"' if "=" in str(old) else old for old in entries}
            out += [f"--{name.replace('_', '-')}={quote[old]}={new}" for old, new in entries.items()]
    for name, text in settings_of({k: v for k, v in values.items() if not isinstance(v, dict)}).items():
        if isinstance(values.get(name, values.get(name.replace("-", "_"))), bool):
            out.append(f"--{name}" if text == "true" else f"--no-{name}")
        else:
            out.append(f"--{name}={text}")
    return out


def command(words: Sequence[str], tick: Optional[Callable[[], Any]] = None, every_s: float = 0.2) -> str:
    """Run `foreline WORDS...` and return what it prints. tick() is called while it runs; what it raises, and Ctrl-C,
    end the command as Ctrl-C does, which leaves no process behind, and are raised."""
    with tempfile.TemporaryFile() as said:
        child = subprocess.Popen([find(), *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=said,
                                 start_new_session=True)
        try:
            while True:
                try:
                    out, _ = child.communicate(timeout=every_s if tick else None)
                    break
                except subprocess.TimeoutExpired:
                    if tick:
                        tick()
        except BaseException:
            _interrupt(child)
            raise
        said.seek(0)
        lines = said.read().decode("utf-8", "replace").strip().splitlines()
    if child.returncode:
        raise error_of(_message(lines, words[0]), _STATUS_OF_EXIT.get(child.returncode, "external"))
    return out.decode("utf-8", "replace")


def _interrupt(child: subprocess.Popen) -> None:
    child.send_signal(signal.SIGINT)
    try:
        child.communicate(timeout=20)
    except subprocess.TimeoutExpired:
        child.kill()
        child.communicate()


def _message(lines: list[str], word: str) -> str:
    """The error among warnings and progress: "foreline WORD: ..."."""
    for line in reversed(lines):
        for begin in (f"foreline {word}: ", "foreline: "):
            if line.startswith(begin):
                return line[len(begin):]
    return lines[-1] if lines else f"foreline {word} failed"


def main() -> None:
    """The command `foreline` of a wheel."""
    os.execv(find(), ["foreline", *sys.argv[1:]])
