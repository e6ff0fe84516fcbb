"""_results.py - what comes back: results of code and commands, files, changes, and how they show in notebooks."""
from __future__ import annotations

import base64
import codecs
import html
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Union

from ._errors import CommandError, error_from

CHART = "application/vnd.bailey.chart+json"
DATA = "application/vnd.bailey.data+json"
_BINARY = ("image/png", "image/jpeg", "image/gif", "image/webp", "application/pdf")


class Chunk(NamedTuple):
    """A piece of output as it comes: `stream` is "stdout" or "stderr"."""

    stream: str
    data: bytes
    text: str


class ChunkDecoder:
    """Makes chunks of the events `stdout` and `stderr`; a character cut in two comes whole."""

    def __init__(self) -> None:
        decoder = codecs.getincrementaldecoder("utf-8")
        self._decoders = {name: decoder("replace") for name in ("stdout", "stderr")}

    def chunk(self, stream: str, data: Mapping[str, Any]) -> Chunk:
        if data.get("encoding") == "base64":
            raw = base64.b64decode(data["data"])
        else:
            raw = str(data["data"]).encode("utf-8")
        return Chunk(stream, raw, self._decoders[stream].decode(raw))


class OutputFile(NamedTuple):
    """A file that a command or a cell left in /tmp/output and that was saved."""

    name: str
    bytes: int
    path: Optional[str] = None

    @classmethod
    def of(cls, raw: Union[str, Mapping[str, Any]]) -> "OutputFile":
        if isinstance(raw, str):  # servers that list names only
            return cls(raw, -1)
        return cls(str(raw["name"]), int(raw.get("bytes", -1)), raw.get("path"))


@dataclass
class ExecutionResult:
    """How a program ended: the same for every language and every runtime.

    exit_code is the program's own; -1 after a timeout; 128 + n when signal n ended it.
    """

    stdout: str
    stderr: str
    exit_code: int
    duration: float
    meta: Dict[str, Any] = field(default_factory=dict, repr=False)

    @property
    def success(self) -> bool:
        return self.exit_code == 0

    @property
    def execution_id(self) -> Optional[str]:
        return self.meta.get("execution_id")

    @property
    def timed_out(self) -> bool:
        return bool(self.meta.get("timed_out"))

    @property
    def oom_killed(self) -> bool:
        return bool(self.meta.get("oom_killed"))

    @property
    def truncated(self) -> bool:
        """Whether stdout or stderr was cut; streams and `CommandHandle.read` have all of it."""
        return bool(self.meta.get("truncated"))

    @property
    def output_files(self) -> List[OutputFile]:
        """What this execution left in /tmp/output and was saved."""
        listed = self.meta.get("files") or self.meta.get("output_files") or []
        return [OutputFile.of(raw) for raw in listed]

    def check(self) -> None:
        """Raises CommandError unless the exit code is 0."""
        if self.exit_code == 0:
            return
        failed = self.meta.get("error")
        if isinstance(failed, dict) and "code" in failed:  # it could not be started at all
            reason, code = str(failed.get("message")), str(failed["code"])
        elif self.timed_out:
            reason, code = "the time limit passed", "timed_out"
        elif self.oom_killed:
            reason, code = "the memory limit was reached", "oom_killed"
        else:
            last = self.stderr.strip().splitlines()[-1:] or ["no text on stderr"]
            reason, code = f"exit code {self.exit_code}: {last[0]}", "command_failed"
        raise CommandError(reason, code=code, result=self)


class CommandResult(ExecutionResult):
    """How a command ended."""

    @classmethod
    def of(cls, raw: Mapping[str, Any]) -> "CommandResult":
        return cls(raw["stdout"], raw["stderr"], raw["exit_code"], raw["duration"],
                   dict(raw.get("meta") or {}))


class ExecutionError(NamedTuple):
    """An exception that code in the sandbox raised."""

    name: str
    value: str
    traceback: str

    def __str__(self) -> str:
        return self.traceback or f"{self.name}: {self.value}"


class Result:
    """One value that a cell showed: its last expression, or something it displayed."""

    def __init__(self, raw: Mapping[str, Any]) -> None:
        self.type: str = str(raw.get("type", "display"))
        self.data: Dict[str, Any] = dict(raw.get("data") or {})
        self.truncated: List[str] = list(raw.get("truncated") or [])

    @property
    def is_main(self) -> bool:
        """Whether it is the value of the cell's last expression."""
        return self.type == "result"

    def _text(self, mime: str) -> Optional[str]:
        value = self.data.get(mime)
        return None if value is None else str(value)

    def _bytes(self, mime: str) -> Optional[bytes]:
        value = self.data.get(mime)
        return None if value is None else base64.b64decode(value)

    @property
    def text(self) -> Optional[str]:
        return self._text("text/plain")

    @property
    def html(self) -> Optional[str]:
        return self._text("text/html")

    @property
    def markdown(self) -> Optional[str]:
        return self._text("text/markdown")

    @property
    def svg(self) -> Optional[str]:
        return self._text("image/svg+xml")

    @property
    def latex(self) -> Optional[str]:
        return self._text("text/latex")

    @property
    def png(self) -> Optional[bytes]:
        return self._bytes("image/png")

    @property
    def jpeg(self) -> Optional[bytes]:
        return self._bytes("image/jpeg")

    @property
    def json(self) -> Any:
        return self.data.get("application/json")

    @property
    def chart(self) -> Optional[Dict[str, Any]]:
        """What a Matplotlib figure shows, as numbers and labels."""
        return self.data.get(CHART)

    @property
    def columns(self) -> Optional[Dict[str, List[Any]]]:
        """A data frame as column to list of values; of a large one the first rows."""
        return self.data.get(DATA)

    @property
    def dataframe(self) -> Any:
        """A data frame, made here with pandas or Polars, whichever is installed."""
        columns = self.columns
        if columns is None:
            return None
        try:
            import pandas
        except ImportError:
            try:
                import polars
            except ImportError:
                raise ImportError("dataframe needs pandas or Polars on this side; "
                                  "columns has the same values without either") from None
            return polars.DataFrame(columns)
        return pandas.DataFrame(columns)

    def formats(self) -> List[str]:
        """The MIME types it has."""
        return list(self.data)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> Dict[str, Any]:
        return {mime: value for mime, value in self.data.items()
                if (not include or mime in include) and (not exclude or mime not in exclude)}

    def __repr__(self) -> str:
        return self.text if self.text is not None else f"<Result {', '.join(self.data)}>"


@dataclass
class Execution(ExecutionResult):
    """What a cell printed, showed and raised.

    .text .png .html .svg .jpeg .json .markdown .latex .chart .columns .dataframe are those of the
    last expression's value where it has one of that kind, else of the last value that was displayed.
    """

    results: List[Result] = field(default_factory=list)
    error: Optional[ExecutionError] = None
    execution_count: Optional[int] = None

    @classmethod
    def of(cls, raw: Mapping[str, Any]) -> "Execution":
        meta = dict(raw.get("meta") or {})
        if raw.get("error") is None and isinstance(meta.get("error"), dict) \
                and not raw.get("results") and not raw["stdout"]:
            # The cell could not be begun (no interpreter, a blocked import): that is no result.
            raise error_from(meta["error"])
        error = raw.get("error")
        return cls(raw["stdout"], raw["stderr"], raw["exit_code"], raw["duration"], meta,
                   [Result(r) for r in raw.get("results") or []],
                   ExecutionError(str(error.get("name")), str(error.get("value")),
                                  str(error.get("traceback", ""))) if error else None,
                   raw.get("execution_count"))

    @property
    def result(self) -> Optional[Result]:
        """The value of the last expression."""
        return next((r for r in self.results if r.is_main), None)

    def _first(self, mime: str) -> Optional[Result]:
        ordered = [r for r in self.results if r.is_main] + self.results[::-1]
        return next((r for r in ordered if mime in r.data), None)

    @property
    def text(self) -> Optional[str]:
        """The last expression's value as text; None when there is none (see stdout)."""
        found = self._first("text/plain")
        return found.text if found else None

    @property
    def html(self) -> Optional[str]:
        found = self._first("text/html")
        return found.html if found else None

    @property
    def markdown(self) -> Optional[str]:
        found = self._first("text/markdown")
        return found.markdown if found else None

    @property
    def svg(self) -> Optional[str]:
        found = self._first("image/svg+xml")
        return found.svg if found else None

    @property
    def latex(self) -> Optional[str]:
        found = self._first("text/latex")
        return found.latex if found else None

    @property
    def png(self) -> Optional[bytes]:
        found = self._first("image/png")
        return found.png if found else None

    @property
    def jpeg(self) -> Optional[bytes]:
        found = self._first("image/jpeg")
        return found.jpeg if found else None

    @property
    def json(self) -> Any:
        found = self._first("application/json")
        return found.json if found else None

    @property
    def chart(self) -> Optional[Dict[str, Any]]:
        found = self._first(CHART)
        return found.chart if found else None

    @property
    def columns(self) -> Optional[Dict[str, List[Any]]]:
        found = self._first(DATA)
        return found.columns if found else None

    @property
    def dataframe(self) -> Any:
        found = self._first(DATA)
        return found.dataframe if found else None

    def check(self) -> None:
        """Raises CommandError when the code raised, timed out or lost its interpreter."""
        if self.error is not None:
            raise CommandError(f"{self.error.name}: {self.error.value}", code="code_raised",
                               result=self)
        super().check()

    def describe(self) -> str:
        """All of it as one text: what a model, or a log, should read."""
        parts = [self.stdout, self.stderr]
        parts += [r.text or f"[{', '.join(r.data)}]" for r in self.results]
        if self.error:
            parts.append(self.error.traceback or f"{self.error.name}: {self.error.value}")
        elif self.timed_out:
            parts.append("the time limit passed")
        elif self.exit_code != 0 and not self.stderr:
            parts.append(f"exit code {self.exit_code}")
        return "\n".join(p.rstrip("\n") for p in parts if p)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> Dict[str, Any]:
        shown = self.result or (self.results[-1] if self.results else None)
        bundle = dict(shown.data) if shown else {}
        bundle["text/plain"] = self.describe()
        if self.stdout or self.error:
            # A front end shows the richest kind alone: what was printed must not get lost.
            before = f"<pre>{html.escape(self.stdout)}</pre>" if self.stdout else ""
            if self.error:
                before += f"<pre style='color:#b00'>{html.escape(str(self.error))}</pre>"
            rich = bundle.get("text/html")
            image = next((m for m in _BINARY[:2] if m in bundle), None)
            if rich is None and image is not None:
                rich = f'<img src="data:{image};base64,{bundle.pop(image)}">'
            elif rich is None and shown is not None and shown.text:
                rich = f"<pre>{html.escape(shown.text)}</pre>"
            bundle["text/html"] = before + (rich or "")
        return {mime: value for mime, value in bundle.items()
                if (not include or mime in include) and (not exclude or mime not in exclude)}


class Change(NamedTuple):
    """A change of a watched folder; kind: created, written, removed, renamed_from, renamed_to,
    attributes, or overflow (changes were lost)."""

    kind: str
    path: str
    type: Optional[str]


@dataclass(frozen=True)
class File:
    """A file with its content, given to or returned by CodeInterpreterSession."""

    name: str
    content: bytes = field(repr=False)

    @classmethod
    def from_path(cls, path: Union[str, "os.PathLike[str]"]) -> "File":
        return cls(Path(path).name, Path(path).read_bytes())

    def save(self, path: Union[str, Path, None] = None) -> Path:
        """Writes it, to its own name in the working folder unless said otherwise."""
        there = Path(path if path is not None else Path(self.name).name)
        there.write_bytes(self.content)
        return there

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> Dict[str, Any]:
        kind = {"png": "image/png", "jpg": "image/jpeg", "jpeg": "image/jpeg"}.get(
            self.name.rsplit(".", 1)[-1].lower())
        bundle = {"text/plain": repr(self)}
        if kind:
            bundle[kind] = base64.b64encode(self.content).decode("ascii")
        return bundle
