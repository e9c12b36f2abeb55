"""What is planned: a model and a platform, by name or file."""
from __future__ import annotations

import hashlib
import html
import json
import os
from pathlib import Path
from typing import Any, Mapping, Optional, Union

from ._command import command, options
from ._library import Handle, UsageError, Value, library, make
from .captures import Capture

Source = Union[str, "os.PathLike[str]", Mapping[str, Any], Any]


def _with(name: str, values: Mapping[str, Optional[Value]]) -> str:
    """NAME:KEY=VALUE,..., as the command takes it; underscores of keys stay."""
    given = [f"{k}={str(v).lower() if isinstance(v, bool) else v}" for k, v in values.items() if v is not None]
    return name + ("," if ":" in Path(name).name else ":") * bool(given) + ",".join(given)


def _kept(folder: str, text: str, suffix: str) -> str:
    """A file of the cache that plans can name: the same text, the same file."""
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "foreline" / folder
    path = base / (hashlib.sha256(text.encode()).hexdigest()[:16] + suffix)
    if not path.exists():
        base.mkdir(parents=True, exist_ok=True)
        partly = path.with_suffix(f".{os.getpid()}.{id(text)}")
        partly.write_text(text, encoding="utf-8")
        partly.replace(path)
    return str(path)


class Model:
    """A model to train.

    source      a name of the zoo ("llama3-70b"), a file in any format that --model takes, a configuration of
                Hugging Face as a dict or an object with to_dict() such as transformers.LlamaConfig, a model of
                transformers, a Capture of one rank, or with `example` a module of PyTorch
    example     inputs of the module, one microbatch: a tensor, or a tuple of them; the module runs forward and backward
    parameters  of the zoo's models and of configurations: tokens=8192, layers=4, dtype="bf16"

    exported    of a module: an export.Exported, whose split(plan file) cuts the module into stages; else None
    """

    def __init__(self, source: Source, *, example: Any = None, **parameters: Value) -> None:
        self.exported: Any = None
        if isinstance(source, Capture):
            source = source.model_file
        elif example is not None and hasattr(source, "named_modules"):
            from .export import export # needs torch
            self.exported = export(source, example)
            source = self.exported.model
        elif example is not None:
            raise UsageError(f"Model: example has no effect on a {type(source).__name__}, expected a module", "usage")
        elif hasattr(getattr(source, "config", None), "to_dict"):
            source = source.config.to_dict()
        elif not isinstance(source, (str, os.PathLike, Mapping)):
            if not hasattr(source, "to_dict"):
                raise UsageError(f"Model: got a {type(source).__name__}, expected a name, a file, a configuration, a Capture, "
                                 "or a module and example=, the inputs of a microbatch", "usage")
            source = source.to_dict()
        if isinstance(source, Mapping):
            source = _kept("models", json.dumps(dict(source), indent=1, sort_keys=True), ".json")
        self.spec: str = _with(os.fspath(source), parameters)
        self._handle = make("model_load", "model", self.spec.encode())
        facts = library().foreline_model_describe(self._handle.pointer)
        self.ops: int = facts.ops
        self.parameters: float = facts.parameters
        self.tokens_per_sample: float = facts.tokens_per_sample
        self.flop_per_sample: float = facts.flop_per_sample

    def to_dict(self) -> dict:
        return {"spec": self.spec, "ops": self.ops, "parameters": self.parameters,
                "tokens_per_sample": self.tokens_per_sample, "flop_per_sample": self.flop_per_sample}

    def __repr__(self) -> str:
        name = f"of {self.exported.model['name']}" if self.exported else self.spec
        return f"<Model {name}: {self.parameters:.4g} parameters, {self.ops} ops>"

    def _repr_html_(self) -> str:
        return f"<p>{html.escape(repr(self))}</p>"


class Platform:
    """A cluster.

    source      a shipped name ("two-racks"), a family ("rail"), or a SimGrid file
    parameters  of a family: nodes=8, gpus=8, type="H100"
    """

    def __init__(self, source: Union[str, "os.PathLike[str]"], **parameters: Value) -> None:
        self.spec: str = _with(os.fspath(source), parameters)
        self._handle: Handle = make("platform_load", "platform", self.spec.encode())
        self._described: Optional[dict] = None

    def edit(self, changes: Optional[Mapping[str, Value]] = None, **more: Value) -> "Platform":
        """The same with other links: edit({"uplink.bandwidth": "10Gbps", "r0*-nic.latency": "5us"}, devices=8)."""
        given = {**(changes or {}), **more}
        return Platform(self.spec + ("," if "@" in self.spec else "@") + ",".join(f"{k}={v}" for k, v in given.items()))

    @classmethod
    def imported(cls, *files: Union[str, "os.PathLike[str]"], output: Union[str, "os.PathLike[str]"],
                 **settings: Value) -> "Platform":
        """`foreline topology import FILE... -o OUTPUT`: a machine or a network of another tool. Runs the command."""
        command(["topology", "import", *[os.fspath(f) for f in files], *options({**settings, "output": os.fspath(output)})])
        return cls(output)

    def __len__(self) -> int:
        return library().foreline_platform_devices(self._handle.pointer)

    @property
    def devices(self) -> list[str]:
        """Their names."""
        device = library().foreline_platform_device
        return [device(self._handle.pointer, i).decode() for i in range(len(self))]

    def to_dict(self) -> dict:
        """`foreline topology show --json`: types of devices, tiers, links. Runs the command, once."""
        if self._described is None:
            self._described = json.loads(command(["topology", "show", self.spec, "--json"]))
        return self._described

    def __repr__(self) -> str:
        return f"<Platform {self.spec}: {len(self)} devices>"

    def _repr_html_(self) -> str:
        said = command(["topology", "show", self.spec]).split("# tier from row to column")[0]
        return f"<pre>{html.escape(said)}</pre>"


def model_of(model: Union[Model, Source]) -> Model:
    return model if isinstance(model, Model) else Model(model)


def platform_of(platform: Union[Platform, str]) -> Platform:
    return platform if isinstance(platform, Platform) else Platform(platform)
