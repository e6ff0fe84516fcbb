"""_errors.py - what goes wrong, as exceptions: each carries the server's code.

The class is chosen by the code where one has a class of its own, else by the status, so that a code
of a newer server is still caught by the class of its kind.
"""
from __future__ import annotations

import json
from typing import Any, Dict, Mapping, Optional, Type


class SandboxError(Exception):
    """Base of all errors of this package.

    code           the server's stable code (`session_ended`), or one of the client's own:
                   `connection_failed`, `client_timeout`, `no_server`
    message        what happened and what to do next
    status         HTTP status, None when no server answered
    field          the member of the request that is wrong
    retry_after_s  seconds after which another try makes sense
    details        all members of the server's error
    """

    default_code = "error"

    def __init__(self, message: str, *, code: Optional[str] = None, status: Optional[int] = None,
                 details: Optional[Mapping[str, Any]] = None) -> None:
        super().__init__(message)
        self.message = message
        self.code: str = code or self.default_code
        self.status = status
        self.details: Dict[str, Any] = dict(details or {})
        self.field: Optional[str] = self.details.get("field")
        self.nearest: Optional[str] = self.details.get("nearest")
        self.retry_after_s: Optional[float] = self.details.get("retry_after_s")

    def __str__(self) -> str:
        text = f"{self.message} ({self.code})"
        return f"{text}; did you mean {self.nearest!r}?" if self.nearest else text

    def __reduce__(self) -> Any:
        return (_rebuild, (type(self), self.message, self.code, self.status, self.details))


def _rebuild(kind: Type[SandboxError], message: str, code: str, status: Optional[int],
             details: Mapping[str, Any]) -> SandboxError:
    return kind(message, code=code, status=status, details=details)


class SandboxConnectionError(SandboxError, ConnectionError):
    """No server answered, or the connection was lost in the middle of a reply."""

    default_code = "connection_failed"


class ConnectFailed(SandboxConnectionError):
    """No connection could be made, so nothing was sent: every request may be tried again."""


class NoServerError(SandboxConnectionError):
    """Nothing is configured and there is no local daemon that could be used or started."""

    default_code = "no_server"


class SandboxTimeoutError(SandboxError, TimeoutError):
    """The client's own time limit passed before the server answered."""

    default_code = "client_timeout"


class InvalidRequestError(SandboxError, ValueError):
    """A member or argument is wrong or unknown (400, 415, 422)."""


class AuthenticationError(SandboxError):
    """No key, or not a valid one (401)."""


class ForbiddenError(SandboxError, PermissionError):
    """The key or the path does not allow it (403)."""


class NotFoundError(SandboxError, LookupError):
    """There is no such thing (404)."""


class SessionNotFoundError(NotFoundError):
    """There is no such session."""


class PathNotFoundError(NotFoundError, FileNotFoundError):
    """There is no such file or folder in the sandbox."""


class TemplateNotFoundError(NotFoundError):
    """There is no such template, or it is not built."""


class ConflictError(SandboxError):
    """The state of the thing does not allow it (409)."""


class PathExistsError(ConflictError, FileExistsError):
    """The file or folder is there already."""


class NameTakenError(ConflictError):
    """Another live session, context or dataset has this name."""


class InstallError(SandboxError):
    """A package could not be installed: not found, denied, or no network."""


class SessionEndedError(SandboxError):
    """The session has ended; `details` has `ended_at` and `reason` (410)."""


class TooLargeError(SandboxError):
    """A body, a file or an answer is larger than the server takes (413)."""


class OutputGoneError(SandboxError):
    """The server does not keep this part of the output any more (416)."""


class LimitError(SandboxError):
    """Too many sessions or contexts, or a quota is used up (429); `retry_after_s` says when."""


class ServerError(SandboxError):
    """The server or the sandbox failed (500)."""


class UnavailableError(ServerError):
    """The server cannot do it now (503): busy, shutting down, no Docker, no isolation."""


class DiskFullError(SandboxError):
    """The sandbox's disk or the server's state folder is full (507)."""


class CommandError(SandboxError):
    """A command of `check=True` ended with a status that is not 0; `result` has its output."""

    default_code = "command_failed"

    def __init__(self, message: str, *, code: Optional[str] = None, status: Optional[int] = None,
                 details: Optional[Mapping[str, Any]] = None, result: Any = None) -> None:
        super().__init__(message, code=code, status=status, details=details)
        self.result = result


_BY_CODE: Dict[str, Type[SandboxError]] = {
    "session_not_found": SessionNotFoundError,
    "path_not_found": PathNotFoundError,
    "template_not_found": TemplateNotFoundError,
    "template_not_built": TemplateNotFoundError,
    "path_exists": PathExistsError,
    "name_taken": NameTakenError,
    "context_taken": NameTakenError,
    "dataset_taken": NameTakenError,
    "install_failed": InstallError,
    "install_denied": InstallError,
    "no_network": InstallError,
    "session_ended": SessionEndedError,
    "offset_gone": OutputGoneError,
    "disk_full": DiskFullError,
}

_BY_STATUS: Dict[int, Type[SandboxError]] = {
    400: InvalidRequestError,
    401: AuthenticationError,
    403: ForbiddenError,
    404: NotFoundError,
    405: InvalidRequestError,
    409: ConflictError,
    410: SessionEndedError,
    413: TooLargeError,
    414: TooLargeError,
    415: InvalidRequestError,
    416: OutputGoneError,
    422: InvalidRequestError,
    429: LimitError,
    431: TooLargeError,
    503: UnavailableError,
    507: DiskFullError,
}


def error_from(details: Mapping[str, Any], status: Optional[int] = None) -> SandboxError:
    """The exception for the member `error` of a reply, a result or an event."""
    code = str(details.get("code", "error"))
    message = str(details.get("message", "the server gave no reason"))
    kind = _BY_CODE.get(code)
    if kind is None:
        kind = _BY_STATUS.get(status or 0, ServerError if (status or 0) >= 500 else SandboxError)
    return kind(message, code=code, status=status, details=details)


def error_from_reply(status: int, body: bytes, retry_after: Optional[str] = None) -> SandboxError:
    """The exception for a reply of 400 and more, whatever is in its body."""
    try:
        details = json.loads(body)["error"]
        if isinstance(details, str):  # a proxy's, or that of POST /execute
            details = {"code": "error", "message": details}
        details = dict(details)
    except (ValueError, KeyError, TypeError):
        text = body[:200].decode("utf-8", "replace").strip()
        details = {"code": f"http_{status}",
                   "message": f"the server answered with status {status}: {text or 'no text'}"}
    if retry_after and retry_after.isdigit():
        details.setdefault("retry_after_s", float(retry_after))
    return error_from(details, status)
