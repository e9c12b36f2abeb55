"""libforeline by ctypes: where it is, its functions, its errors. Nothing here is public but the exceptions."""
from __future__ import annotations

import ctypes
import json
import os
import re
import signal
import threading
from pathlib import Path
from typing import Any, Callable, Mapping, Optional, Union

Progress = Callable[[float, float], Any]
Value = Union[str, int, float, bool, os.PathLike]

_STATUSES = ("ok", "no memory", "invalid", "parse", "io", "infeasible", "unsupported", "external", "usage", "stopped")
_PLACE = re.compile(r"(?P<file>[^:\n]+):(?P<line>\d+)(?::\d+)?: ")


class Error(Exception):
    """What foreline says is wrong.

    message  the line that the command would print
    file     the file that is wrong, None where it is not about one
    line     the line in it, None where it is not known
    status   "usage", "parse", "infeasible", "io", ...
    """

    def __init__(self, message: str, status: str = "external") -> None:
        super().__init__(message)
        place = _PLACE.match(message)
        self.message, self.status = message, status
        self.file: Optional[str] = place["file"] if place else None
        self.line: Optional[int] = int(place["line"]) if place else None


class UsageError(Error, ValueError):
    """A name or a setting that does not exist, or settings that contradict each other."""


class InfeasibleError(Error):
    """No plan fits, or none keeps what was asked for."""


class Stopped(Error):
    """A progress callback asked for it."""


_ERRORS = {"usage": UsageError, "infeasible": InfeasibleError, "stopped": Stopped}


def error_of(message: str, status: str) -> Error:
    return _ERRORS.get(status, Error)(message, status)


class _Error(ctypes.Structure):
    _fields_ = [("status", ctypes.c_int), ("message", ctypes.c_char * 1024)]


class _Setting(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("value", ctypes.c_char_p)]


_Tick = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_double, ctypes.c_double)


class _Options(ctypes.Structure):
    _fields_ = [("setting", ctypes.POINTER(_Setting)), ("settings", ctypes.c_size_t), ("progress", _Tick),
                ("context", ctypes.c_void_p)]


class _Facts(ctypes.Structure):
    _fields_ = [("ops", ctypes.c_size_t), ("parameters", ctypes.c_double), ("tokens_per_sample", ctypes.c_double),
                ("flop_per_sample", ctypes.c_double)]


_HANDLE, _TEXT, _POINTER, _SAYS = ctypes.c_void_p, ctypes.c_char_p, ctypes.POINTER(ctypes.c_void_p), ctypes.POINTER(_Error)
_FUNCTIONS = {
    "library_version": (_TEXT, []),
    "model_load": (ctypes.c_int, [_TEXT, _POINTER, _SAYS]),
    "model_free": (None, [_HANDLE]),
    "model_describe": (_Facts, [_HANDLE]),
    "platform_load": (ctypes.c_int, [_TEXT, _POINTER, _SAYS]),
    "platform_free": (None, [_HANDLE]),
    "platform_devices": (ctypes.c_size_t, [_HANDLE]),
    "platform_device": (_TEXT, [_HANDLE, ctypes.c_size_t]),
    "plan_find": (ctypes.c_int, [_HANDLE, _HANDLE, ctypes.POINTER(_Options), _POINTER, _SAYS]),
    "plan_json": (_TEXT, [_HANDLE]),
    "plan_read": (ctypes.c_int, [_TEXT, _POINTER, _SAYS]),
    "plan_write": (ctypes.c_int, [_HANDLE, _TEXT, _SAYS]),
    "plan_free": (None, [_HANDLE]),
    "simulate": (ctypes.c_int, [_HANDLE, ctypes.POINTER(_Options), _POINTER, _SAYS]),
    "text_free": (None, [_HANDLE]),
}


def prefixes() -> list[Path]:
    """Where an installed foreline may be: $FORELINE_PREFIX alone, else the wheel's and what this file is in."""
    if "FORELINE_PREFIX" in os.environ:
        return [Path(os.environ["FORELINE_PREFIX"])]
    here = Path(__file__).resolve().parent
    return [here / "_native", *list(here.parents)[3:4]]


def _find() -> str:
    for prefix in prefixes():
        for path in sorted(prefix.glob("lib*/libforeline.so.0")) + sorted(prefix.glob("lib/*/libforeline.so.0")):
            return str(path)
    if "FORELINE_PREFIX" in os.environ:
        raise Error(f"{os.environ['FORELINE_PREFIX']}: lib/libforeline.so.0 not found in $FORELINE_PREFIX", "io")
    return "libforeline.so.0"


_loaded: Optional[ctypes.CDLL] = None
_loading = threading.Lock()


def library() -> ctypes.CDLL:
    """libforeline, loaded by the first call; ctypes releases the GIL while its functions run."""
    global _loaded
    with _loading:
        if _loaded is None:
            try:
                lib = ctypes.CDLL(_find())
            except OSError as e:
                raise Error(f"libforeline not found ({e}); set FORELINE_PREFIX to where foreline is installed", "io") from None
            for name, (result, arguments) in _FUNCTIONS.items():
                function = getattr(lib, f"foreline_{name}")
                function.restype, function.argtypes = result, arguments
            _loaded = lib
    return _loaded


class Handle:
    """An object of the library, released with it."""

    def __init__(self, kind: str, pointer: ctypes.c_void_p, keeps: tuple = ()) -> None:
        self.pointer, self._keeps = pointer, keeps
        self._free = getattr(library(), f"foreline_{kind}_free")

    def __del__(self) -> None:
        if self.pointer:
            self._free(self.pointer)


def settings_of(values: Mapping[str, Optional[Value]]) -> dict[str, str]:
    """As options: names with dashes, True as "true", None left out, lists with commas."""
    out = {}
    for name, value in values.items():
        if isinstance(value, (list, tuple)):
            value = ",".join(map(str, value))
        if value is not None:
            out[name.replace("_", "-")] = str(value).lower() if isinstance(value, bool) else str(value)
    return out


def call(name: str, *arguments: Any) -> None:
    """A function that returns a status."""
    error = _Error()
    status = getattr(library(), f"foreline_{name}")(*arguments, ctypes.byref(error))
    if status:
        raise error_of(error.message.decode("utf-8", "replace"), _STATUSES[status])


def make(name: str, kind: str, *arguments: Any, keeps: tuple = ()) -> Handle:
    out = ctypes.c_void_p()
    call(name, *arguments, ctypes.byref(out))
    return Handle(kind, out, keeps)


class Watched:
    """The options of a long call. Ctrl-C, and whatever `progress` raises, stop the call and are raised behind it."""

    def __init__(self, settings: Mapping[str, Optional[Value]], progress: Optional[Progress]) -> None:
        items = [_Setting(k.encode(), v.encode()) for k, v in settings_of(settings).items()]
        self._raised: Optional[BaseException] = None
        self._signal: Optional[tuple] = None
        self._progress = progress
        self._array = (_Setting * len(items))(*items)
        self.options = _Options(self._array, len(items), _Tick(self._tick), None)

    def _tick(self, _context: Any, done: float, total: float) -> int:
        try:
            stop = self._progress is not None and self._progress(done, total) is False
            return int(stop or self._signal is not None)
        except BaseException as e: # pylint: disable=broad-except
            self._raised = e
            return 1

    def _interrupt(self, *signal_and_frame: Any) -> None:
        self._signal = signal_and_frame

    def make(self, name: str, *arguments: Any) -> ctypes.c_void_p:
        """An exception inside a callback of ctypes would be lost: SIGINT waits for the end of the call."""
        out, before = ctypes.c_void_p(), signal.getsignal(signal.SIGINT)
        own = callable(before) and threading.current_thread() is threading.main_thread()
        if own:
            signal.signal(signal.SIGINT, self._interrupt)
        try:
            call(name, *arguments, ctypes.byref(self.options), ctypes.byref(out))
        except Error:
            if not self._raised and not self._signal:
                raise
        finally:
            if own:
                signal.signal(signal.SIGINT, before)
        try:
            if self._signal and callable(before):
                before(*self._signal)
            if self._raised:
                raise self._raised
            if not out:
                raise Stopped("interrupted", "stopped")
        except BaseException:
            getattr(library(), f"foreline_{'text' if name == 'simulate' else 'plan'}_free")(out)
            raise
        return out


def document(text: ctypes.c_void_p) -> dict:
    """A JSON text of the library, released."""
    try:
        return json.loads(ctypes.string_at(text))
    finally:
        library().foreline_text_free(text)


def version() -> str:
    return library().foreline_library_version().decode()
