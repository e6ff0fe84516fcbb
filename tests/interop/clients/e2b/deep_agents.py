"""deep_agents.py - LangChain's E2B integration, the sandbox of a Deep Agent."""
import asyncio

from e2b import AsyncSandbox
from langchain_e2b import AsyncE2BSandbox, E2BSandbox


def test_commands_and_files(sandbox):
    place = E2BSandbox(sandbox=sandbox)
    done = place.execute("echo out; echo bad >&2; exit 3")
    assert done.exit_code == 3 and "out" in done.output and "bad" in done.output, done
    assert place.upload_files([("/home/user/a.txt", b"one\ntwo\n")])[0].error is None
    assert place.download_files(["/home/user/a.txt"])[0].content == b"one\ntwo\n"
    assert place.download_files(["/home/user/missing"])[0].error == "file_not_found"


def test_the_files_of_an_agent(sandbox):
    place = E2BSandbox(sandbox=sandbox)
    assert not place.write("/home/user/plan.md", "first\nsecond\n").error
    assert "second" in str(place.read("/home/user/plan.md"))
    assert not place.edit("/home/user/plan.md", "second", "last").error
    assert sandbox.files.read("/home/user/plan.md") == "first\nlast\n"
    assert "plan.md" in str(place.ls("/home/user"))
    assert "plan.md" in str(place.grep("last", path="/home/user"))


def test_asyncio():
    async def work():
        sandbox = await AsyncSandbox.create()
        try:
            place = AsyncE2BSandbox(sandbox=sandbox)
            return await place.aexecute("echo later")
        finally:
            await sandbox.kill()
    assert "later" in asyncio.run(work()).output
