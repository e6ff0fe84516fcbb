"""_box.py - the small types of CodeBox and CodeInterpreterSession, and what a model is told."""
from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

from ._results import Execution, File

# Modules whose package has another name, for the installation of what code turns out to miss.
IMPORT_NAMES = {
    "Crypto": "pycryptodome", "PIL": "pillow", "bs4": "beautifulsoup4", "cv2": "opencv-python-headless",
    "dateutil": "python-dateutil", "docx": "python-docx", "dotenv": "python-dotenv", "fitz": "pymupdf",
    "jwt": "pyjwt", "pptx": "python-pptx", "skimage": "scikit-image", "sklearn": "scikit-learn",
    "yaml": "pyyaml",
}


class CodeBoxStatus(NamedTuple):
    status: str

    def __str__(self) -> str:
        return self.status


@dataclass(frozen=True)
class CodeBoxFile:
    name: str
    content: Optional[bytes] = field(default=None, repr=False)


@dataclass(frozen=True)
class CodeBoxOutput:
    """type is "text", "image/png" (content is base64) or "error"."""

    type: str
    content: str
    execution: Optional[Execution] = field(default=None, repr=False, compare=False)

    def __str__(self) -> str:
        return self.content

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> Dict[str, Any]:
        if self.type == "image/png":
            return {"image/png": self.content, "text/plain": "image/png"}
        return {"text/plain": self.content}


@dataclass(frozen=True)
class CodeInterpreterResponse:
    """content: the model's answer; files: what the code made; code_log: (code, its output)."""

    content: str
    files: List[File] = field(default_factory=list)
    code_log: List[Tuple[str, str]] = field(default_factory=list)

    def show(self) -> None:
        print(self.content)
        for file in self.files:
            print(f"[file] {file.name}")

    def __str__(self) -> str:
        return self.content

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> Dict[str, Any]:
        bundle: Dict[str, Any] = {"text/plain": self.content, "text/markdown": self.content}
        for file in self.files:
            if file.name.endswith(".png"):
                bundle["image/png"] = file._repr_mimebundle_()["image/png"]
        return bundle


SYSTEM_PROMPT = """You answer with the help of a Python interpreter in a sandbox.
To run code, reply with exactly one fenced block that begins with ```python and nothing behind it. You then
get its output. Variables and files stay between blocks; the working folder is /workspace. The value
of a block's last expression is shown. Save every file that the user should get, plots included, below
/tmp/output. There is no network.
When you know the answer, reply without any fenced Python block: that reply is what the user reads."""

_BLOCK = re.compile(r"```(?:python|py)[ \t]*\r?\n(.*?)(?:```|\Z)", re.S)


def code_in(reply: str) -> Optional[str]:
    """The first fenced Python block of a model's reply."""
    found = _BLOCK.search(reply)
    return found.group(1) if found else None


def shown_to_model(execution: Execution, limit: int = 10_000) -> str:
    """Output of a block, as the next message; of a long one the beginning and the end."""
    text = execution.describe() or "(no output)"
    if len(text) > limit:
        half = limit // 2
        text = f"{text[:half]}\n[... {len(text) - limit} characters left out ...]\n{text[-half:]}"
    return f"Output:\n{text}"
