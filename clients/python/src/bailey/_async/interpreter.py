"""interpreter.py - CodeInterpreterSession: a conversation with a model that may run code."""
from __future__ import annotations

import base64
import os
import sys
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple, Union, cast

from .. import _api as api
from .._box import SYSTEM_PROMPT, CodeInterpreterResponse, code_in, shown_to_model
from .._errors import InvalidRequestError, SandboxError
from .._results import File
from .._wire import given
from .codebox import AsyncCodeBox
from .io import settled

Message = Dict[str, str]
Model = Callable[[List[Message]], Any]


def _whole(file: Union[File, str, "os.PathLike[str]"]) -> File:
    return file if isinstance(file, File) else File.from_path(file)


class AsyncCodeInterpreterSession:
    """A model and a sandbox.

    model      called with the messages so far ({"role": "system"|"user"|"assistant", "content"});
               returns the reply's text. Any provider's client fits behind it. None, or the name of
               a model: the server's model server answers (POST /v1/chat).
    verbose    prints each step to standard error
    max_steps  blocks of code that one message may lead to (10), and system_prompt: only with a
               function, because a server has its own

    The other arguments are those of AsyncSandbox.
    """

    def __init__(self, model: Union[Model, str, None] = None, *, template: Optional[str] = None,
                 verbose: bool = False, max_steps: Optional[int] = None,
                 system_prompt: Optional[str] = None, **options: Any) -> None:
        if not (model is None or isinstance(model, str) or callable(model)):
            raise InvalidRequestError(
                "model has to be a function (messages in, text out), the name of one of the server's "
                "models, or None", code="bad_input")
        if not callable(model) and (max_steps is not None or system_prompt is not None):
            raise InvalidRequestError(
                "max_steps and system_prompt need a function as model; the server's model server has "
                "its own", code="bad_input")
        self.verbose = verbose
        self._model = model
        self._max_steps = 10 if max_steps is None else max_steps
        self._box = AsyncCodeBox(template, **options)
        self.messages: List[Message] = [] if not callable(model) else [
            {"role": "system", "content": SYSTEM_PROMPT if system_prompt is None else system_prompt}]

    @property
    def session_id(self) -> Optional[str]:
        return self._box.session_id

    async def start(self) -> None:
        await self._box.start()

    async def stop(self) -> None:
        await self._box.stop()

    def _tell(self, what: str, text: str) -> None:
        if self.verbose:
            print(f"[{what}] {text}", file=sys.stderr)

    async def _ask(self, model: Model) -> str:
        reply = model([dict(message) for message in self.messages])
        reply = await settled(reply)
        if not isinstance(reply, str):
            raise InvalidRequestError(
                f"the model function returned {type(reply).__name__}; it has to return a text",
                code="bad_input")
        self.messages.append({"role": "assistant", "content": reply})
        return reply

    async def generate_response(self, message: str,
                                files: Sequence[Union[File, str, "os.PathLike[str]"]] = ()
                                ) -> CodeInterpreterResponse:
        """Answers a message; `files` are put into the working folder before."""
        if not callable(self._model):
            return await self._chat(self._model, message, [_whole(file) for file in files])
        names = [await self._give(file) for file in files]
        if names:
            message += f"\n\nFiles in /workspace: {', '.join(names)}"
        self.messages.append({"role": "user", "content": message})
        self._tell("user", message)
        made: Dict[str, File] = {}
        log: List[Tuple[str, str]] = []
        for _ in range(self._max_steps):
            reply = await self._ask(self._model)
            self._tell("model", reply)
            code = code_in(reply)
            if code is None:
                return CodeInterpreterResponse(reply, list(made.values()), log)
            output = await self._run(code, made)
            self._tell("output", output)
            log.append((code, output))
            self.messages.append({"role": "user", "content": output})
        raise SandboxError(
            f"the model still wanted to run code after {self._max_steps} blocks; "
            "raise max_steps, or ask for less", code="too_many_steps")

    async def _chat(self, model: Optional[str], message: str,
                    files: List[File]) -> CodeInterpreterResponse:
        """The server asks its model server and runs the code in our session."""
        sandbox = await self._box.sandbox()
        client = await sandbox.ready()
        self._tell("user", message)
        body = given(message=message, session=sandbox.id, model=model, files=[
            {"name": file.name, "content_base64": base64.b64encode(file.content).decode("ascii")}
            for file in files] or None)
        reply = cast(api.ChatReply, await client.call(api.CHAT, body=body, makes=True, waits=True))
        log = [(step["code"], step["output"]["content"]) for step in reply["code_log"]]
        for code, output in log:
            self._tell("code", code)
            self._tell("output", output)
        self._tell("model", reply["content"])
        self.messages += [{"role": "user", "content": message},
                          {"role": "assistant", "content": reply["content"]}]
        made = [File(one["name"], await client.fetch(
            api.GET_CONTAINER_FILE_CONTENT,
            api.GET_CONTAINER_FILE_CONTENT.at(id=reply["container"], file=one["id"])))
            for one in reply["files"]]
        return CodeInterpreterResponse(reply["content"], made, log)

    async def _give(self, file: Union[File, str, "os.PathLike[str]"]) -> str:
        whole = _whole(file)
        await self._box.upload(whole.name, whole.content)
        return whole.name

    async def _run(self, code: str, made: Dict[str, File]) -> str:
        output = await self._box.run(code)
        execution = output.execution
        if execution is None:  # the sandbox itself failed: no text of a model repairs that
            raise SandboxError(output.content, code="sandbox_failed")
        text = shown_to_model(execution)
        sandbox = await self._box.sandbox()
        for saved in execution.output_files:
            made[saved.name] = File(saved.name, await sandbox.outputs.read(saved.name))
        for number, result in enumerate(execution.results, 1):
            if result.png is not None:
                name = f"figure-{execution.execution_count or 0}-{number}.png"
                made[name] = File(name, result.png)
        return text

    async def __aenter__(self) -> "AsyncCodeInterpreterSession":
        await self.start()
        return self

    async def __aexit__(self, *_: Any) -> None:
        await self.stop()
