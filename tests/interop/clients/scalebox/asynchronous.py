"""asynchronous.py - AsyncSandbox of the PyPI package: code, files, commands."""
import asyncio

from scalebox.code_interpreter import AsyncSandbox


def test_several_sandboxes_at_once():
    async def one(number):
        sandbox = await AsyncSandbox.create(timeout=120)
        try:
            done = await sandbox.run_code(f"print({number}); {number} * 2")
            assert (done.logs.stdout, done.results[0].text) == ([f"{number}\n"], str(number * 2))
            await sandbox.files.write("/home/user/a.txt", str(number))
            assert await sandbox.files.read("/home/user/a.txt") == str(number)
            assert (await sandbox.commands.run("cat a.txt")).stdout == str(number)
            assert [entry.name for entry in await sandbox.files.list("/home/user")] == ["a.txt"]
        finally:
            await sandbox.kill()

    async def all_of_them():
        await asyncio.gather(*(one(number) for number in range(3)))

    asyncio.run(all_of_them())
