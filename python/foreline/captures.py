"""Captured training scripts: made, read."""
from __future__ import annotations

import json
import os
import shlex
from pathlib import Path
from typing import Optional, Sequence, Union

from ._command import command, options
from ._library import Error, Value
from .results import Document

Path_ = Union[str, "os.PathLike[str]"]


class Capture(Document):
    """What the ranks of a training script do: Capture("run") reads a folder, foreline.capture() makes one.

    world_size, node, device, command, torch  how it was captured
    classes                                   ranks that do the same, and the file of what they do
    notes                                     what to know before believing it
    path                                      the folder
    """

    _rows = "classes"

    def __init__(self, path: Path_) -> None:
        self.path, head = os.fspath(path), Path(path) / "capture.json"
        try:
            said = json.loads(head.read_text(encoding="utf-8"))
        except OSError as e:
            raise Error(f"{head}: {e.strerror}", "io") from None
        except ValueError as e:
            raise Error(f"{head}:{getattr(e, 'lineno', 1)}: not JSON: {getattr(e, 'msg', e)}", "parse") from None
        if not isinstance(said, dict) or said.get("format") != "foreline-capture":
            raise Error(f"{head}:1: expected format 'foreline-capture'", "parse")
        super().__init__(said)

    @property
    def model_file(self) -> str:
        """The model that the script trains, of a capture of one rank."""
        path = Path(self.path) / "model.json"
        if not path.exists():
            raise Error(f"{self.path}: a capture of {self.world_size} ranks is no model: the script has cut it already. "
                        "Try capture(..., world_size=1)", "unsupported")
        return str(path)

    def _facts(self) -> list[tuple[str, str]]:
        d = self.document
        return [("command", d["command"]), ("ranks", str(d["world_size"])), ("classes", str(len(d["classes"])))]


def capture(words: Union[str, Sequence[Path_]], output: Path_, world_size: int = 1, **settings: Optional[Value]) -> Capture:
    """Record what each rank of a PyTorch script does, without the other ranks and without a GPU. Runs `foreline capture`.

    words     the command: "python3 train.py --layers 4", or a list
    output    the folder to write
    settings  its options, with underscores: device="cuda", steps=3, dry=True, profile=True, real=True
    """
    words = shlex.split(words) if isinstance(words, str) else [os.fspath(w) for w in words]
    command(["capture", *options({**settings, "output": os.fspath(output), "world_size": world_size}), "--", *words])
    return Capture(output)
