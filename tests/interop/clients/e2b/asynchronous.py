"""asynchronous.py - the same capabilities through AsyncSandbox."""
import asyncio

import pytest
from e2b import AsyncSandbox, CommandExitException, FilesystemEventType, NotFoundException, TimeoutException
from e2b.sandbox.commands.command_handle import PtySize


def with_sandbox(test):
    """The test as a coroutine with a sandbox of its own."""
    async def main():
        made = await AsyncSandbox.create(timeout=120)
        try:
            await test(made)
        finally:
            await made.kill()

    def run():
        asyncio.run(main())
    run.__name__ = test.__name__
    return run


@with_sandbox
async def test_files(sandbox):
    await sandbox.files.write("a/b.txt", "text")
    assert await sandbox.files.read("a/b.txt") == "text"
    data = bytes(range(256)) * 4000
    await sandbox.files.write("bytes", data)
    assert await sandbox.files.read("bytes", format="bytes") == data
    assert b"".join([piece async for piece in await sandbox.files.read("bytes", format="stream")]) == data
    assert await sandbox.files.make_dir("d") is True and await sandbox.files.make_dir("d") is False
    assert [one.name for one in await sandbox.files.list("a")] == ["b.txt"]
    assert (await sandbox.files.rename("a/b.txt", "a/c.txt")).path == "/home/user/a/c.txt"
    assert await sandbox.files.exists("a/c.txt") and not await sandbox.files.exists("a/b.txt")
    await sandbox.files.remove("a")
    with pytest.raises(NotFoundException):
        await sandbox.files.get_info("a")


@with_sandbox
async def test_commands(sandbox):
    with pytest.raises(CommandExitException) as caught:
        await sandbox.commands.run("echo out; exit 3")
    assert (caught.value.exit_code, caught.value.stdout) == (3, "out\n")
    with pytest.raises(TimeoutException):
        await sandbox.commands.run("sleep 1000", timeout=0.3)
    seen = []
    handle = await sandbox.commands.run("echo one; read x; echo $x", background=True, stdin=True, on_stdout=seen.append)
    assert handle.pid in [one.pid for one in await sandbox.commands.list()]
    await sandbox.commands.send_stdin(handle.pid, "two\n")
    await handle.wait()
    assert "".join(seen) == "one\ntwo\n"
    handle = await sandbox.commands.run("exec sleep 1000", background=True)
    assert await handle.kill() is True
    with pytest.raises(CommandExitException):
        await handle.wait()
    assert await sandbox.commands.kill(handle.pid) is False


@with_sandbox
async def test_connecting_for_a_while(sandbox):
    handle = await sandbox.commands.run("exec sleep 1000", background=True)
    again = await sandbox.commands.connect(handle.pid, timeout=0.3)
    with pytest.raises(TimeoutException):
        await again.wait()
    assert await sandbox.commands.kill(handle.pid) is True, "only the connection was over"


@with_sandbox
async def test_terminals(sandbox):
    text, came = [], asyncio.Event()

    async def on_data(data):
        text.append(data)
        if b"30 100" in b"".join(text):
            came.set()
    handle = await sandbox.pty.create(PtySize(rows=30, cols=100), on_data=on_data)
    await sandbox.pty.send_stdin(handle.pid, b"stty size\n")
    await asyncio.wait_for(came.wait(), 60)
    await sandbox.pty.resize(handle.pid, PtySize(rows=40, cols=120))
    assert await sandbox.pty.kill(handle.pid) is True


@with_sandbox
async def test_watches(sandbox):
    seen, came = [], asyncio.Event()

    async def on_event(event):
        seen.append((event.type, event.name))
        if event.type == FilesystemEventType.REMOVE:
            came.set()
    await sandbox.files.make_dir("w/below")
    handle = await sandbox.files.watch_dir("w", on_event=on_event, recursive=True)
    await sandbox.files.write("w/below/f.txt", "x")
    await sandbox.files.remove("w/below/f.txt")
    await asyncio.wait_for(came.wait(), 60)
    assert (FilesystemEventType.WRITE, "below/f.txt") in seen
    await handle.stop()


@with_sandbox
async def test_lifecycle(sandbox):
    info = await sandbox.get_info()
    assert info.sandbox_id == sandbox.sandbox_id
    again = await AsyncSandbox.connect(sandbox.sandbox_id)
    assert await again.is_running() is True
    await sandbox.set_timeout(300)
    assert (await sandbox.get_info()).end_at > info.end_at
    pages, found = AsyncSandbox.list(), []
    while pages.has_next:
        found += [one.sandbox_id for one in await pages.next_items()]
    assert sandbox.sandbox_id in found
    assert (await sandbox.get_metrics())[-1].mem_total > 0
    assert await again.kill() is True and await again.kill() is False
    assert await again.is_running() is False
