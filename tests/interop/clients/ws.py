"""ws.py - the door as `websockets` sees it: URL KEY SESSION. Prints one JSON object with what it saw."""
import asyncio
import json
import sys

from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

URL, KEY, SESSION = sys.argv[1:]
PROTOCOLS = ["bailey.v1", f"bailey.key.{KEY}"]


async def command(saw):
    async with connect(f"{URL}/v1/sessions/{SESSION}/ws", subprotocols=PROTOCOLS) as ws:
        saw["protocol"] = ws.subprotocol
        await ws.send(json.dumps({"type": "exec", "id": "a", "argv": ["sh", "-c", "cat; exit 4"],
                                  "stdin": True}))
        sent, got = "\u00e4\U0001f600" * 20000, ""
        async for text in ws:
            message = json.loads(text)
            if message.get("id") == "a":
                # In fragments: an iterable is one message.
                words = json.dumps({"type": "stdin", "execution": message["execution_id"],
                                    "data": sent, "end": True})
                await ws.send(words[at:at + 1000] for at in range(0, len(words), 1000))
            if message.get("event") == "stdout":
                got += message["data"]["data"]
            if message.get("event") == "exit":
                saw["exit_code"] = message["data"]["exit_code"]
                break
        saw["is_same"] = sent == got
        await (await ws.ping())
    saw["code"] = ws.close_code


async def terminal(saw):
    path = f"{URL}/v1/sessions/{SESSION}/pty/ws?rows=33&columns=99"
    async with connect(path, subprotocols=PROTOCOLS) as ws:
        await ws.send(b"stty size; exit 6\n")
        got = b""
        try:
            while True:
                message = await ws.recv()
                if isinstance(message, bytes):
                    got += message
                elif json.loads(message)["type"] == "exit":
                    saw["terminal_exit"] = json.loads(message)["exit_code"]
        except ConnectionClosed:
            saw["terminal_code"] = ws.close_code
        saw["terminal"] = got.decode()


async def main():
    saw = {}
    await command(saw)
    await terminal(saw)
    try:
        async with connect(f"{URL}/v1/ws"):
            saw["without"] = 101
    except InvalidStatus as refused:
        saw["without"] = refused.response.status_code
    print(json.dumps(saw))


asyncio.run(main())
