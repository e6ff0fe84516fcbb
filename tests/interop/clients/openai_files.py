"""openai_files.py - the containers and files of OpenAI's own Python client; one JSON line says what it saw."""
import io
import json
import os
import sys

import openai

client = openai.OpenAI(base_url=os.environ["OPENAI_BASE_URL"], api_key=os.environ["OPENAI_API_KEY"], max_retries=0)
seen = {"version": openai.__version__}

big = os.urandom(2_000_000)
file = client.files.create(file=("räport.bin", io.BytesIO(big)), purpose="user_data")
seen["file"] = [file.id[:5], file.bytes, file.filename, file.purpose, file.status]
seen["same"] = client.files.content(file.id).read() == big
seen["listed"] = [f.id for f in client.files.list(purpose="user_data")] == [file.id]
seen["retrieved"] = client.files.retrieve(file.id).id == file.id

made = client.containers.create(name="data", file_ids=[file.id], memory_limit="1g",
                                expires_after={"anchor": "last_active_at", "minutes": 10})
seen["container"] = [made.id[:5], made.name, made.status, made.expires_after.minutes]
one = client.containers.files.create(container_id=made.id, file=("a.csv", b"x\n1\n"))
seen["path"] = [one.path, one.source, one.bytes, one.container_id == made.id]
two = client.containers.files.create(container_id=made.id, file_id=file.id)
seen["paths"] = sorted(f.path for f in client.containers.files.list(made.id, limit=1))  # pages follow by themselves
seen["content"] = client.containers.files.content.retrieve(one.id, container_id=made.id).read().decode()
seen["shown"] = client.containers.files.retrieve(two.id, container_id=made.id).bytes
client.containers.files.delete(one.id, container_id=made.id)
seen["left"] = [f.path for f in client.containers.files.list(made.id)]
seen["found"] = made.id in [c.id for c in client.containers.list(limit=1)]
errors = []
for call in (lambda: client.containers.create(name="x", memory_limit="64g"),
             lambda: client.containers.retrieve("cntr_0"),
             lambda: client.files.content("file-0"),
             lambda: client.containers.create(name="x", file_ids=["file-0"])):
    try:
        call()
    except openai.APIStatusError as error:
        errors.append([type(error).__name__, error.status_code, error.code, error.param])
seen["errors"] = errors
client.containers.delete(made.id)
seen["deleted"] = client.files.delete(file.id).deleted
json.dump(seen, sys.stdout)
