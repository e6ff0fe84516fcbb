"""files.py - sandbox.files: bytes, folders, names, watches, metadata, compressed uploads."""
import asyncio
import hashlib
import threading

import pytest
from e2b import AsyncSandbox, FileType, FilesystemEventType, InvalidArgumentException, NotFoundException
from e2b.sandbox.filesystem.filesystem import WriteEntry


def test_text_and_bytes_come_back_as_they_were_written(sandbox):
    info = sandbox.files.write("a/b/hällo.txt", "wörld")
    assert (info.name, info.path, info.type) == ("hällo.txt", "/home/user/a/b/hällo.txt", FileType.FILE)
    assert sandbox.files.read("a/b/hällo.txt") == "wörld"
    data = bytes(range(256)) * 4096
    sandbox.files.write("bytes", data)
    assert sandbox.files.read("/home/user/bytes", format="bytes") == data
    assert b"".join(sandbox.files.read("bytes", format="stream")) == data
    sandbox.files.write("~/short", "")
    assert sandbox.files.read("~/short") == ""


def test_a_file_is_replaced_as_a_whole(sandbox):
    sandbox.files.write("f", "long long text")
    sandbox.files.write("f", "short")
    assert sandbox.files.read("f") == "short"
    assert sandbox.commands.run("stat -c '%a %U' f").stdout == "644 user\n"


def test_what_is_not_a_file_cannot_be_read(sandbox):
    with pytest.raises(NotFoundException):
        sandbox.files.read("missing")
    with pytest.raises(InvalidArgumentException):
        sandbox.files.read("/home/user")
    with pytest.raises(InvalidArgumentException):
        sandbox.files.write("/etc/passwd", "x")


def test_many_files_in_one_request(sandbox):
    entries = [WriteEntry(path=f"many/{i}.txt", data=f"text {i}\r\n--not-a-boundary") for i in range(120)]
    infos = sandbox.files.write_files(entries)
    assert [info.path for info in infos] == [f"/home/user/many/{i}.txt" for i in range(120)]
    assert sandbox.files.read("many/119.txt") == "text 119\r\n--not-a-boundary"
    assert sandbox.files.write_files([]) == []


@pytest.mark.parametrize("options", [{}, {"gzip": True}, {"use_octet_stream": True}], ids=str)
def test_ten_megabytes_arrive_whole_in_every_encoding(sandbox, options):
    data = b"".join(hashlib.sha256(str(i).encode()).digest() for i in range(160000)) + b"\0" * 5000000
    try:
        sandbox.files.write("big", data, **options)
    except TypeError as why:
        pytest.skip(f"this version of the client has no such option: {why}")
    assert sandbox.commands.run("sha256sum < big").stdout.split()[0] == hashlib.sha256(data).hexdigest()
    assert sandbox.files.read("big", format="bytes") == data


def test_folders_are_made_and_listed(sandbox):
    assert sandbox.files.make_dir("tree/b") is True
    assert sandbox.files.make_dir("tree/b") is False
    for name in ("tree/c.txt", "tree/b/1", "tree/b/2", "tree/a.txt", "tree/b.txt"):
        sandbox.files.write(name, name)
    assert [one.name for one in sandbox.files.list("tree")] == ["a.txt", "b", "b.txt", "c.txt"]
    assert [one.path for one in sandbox.files.list("tree", depth=2)] == [
        "/home/user/tree/" + name for name in ("a.txt", "b", "b/1", "b/2", "b.txt", "c.txt")]
    with pytest.raises(NotFoundException):
        sandbox.files.list("nowhere")
    with pytest.raises(InvalidArgumentException):
        sandbox.files.list("tree/a.txt")
    with pytest.raises(InvalidArgumentException):
        sandbox.files.make_dir("tree/a.txt")


def test_information_about_files(sandbox):
    sandbox.files.write("about.txt", "12345")
    info = sandbox.files.get_info("about.txt")
    assert (info.name, info.type, info.path, info.size) == ("about.txt", FileType.FILE, "/home/user/about.txt", 5)
    assert (info.mode, info.permissions, info.owner, info.group) == (0o644, "-rw-r--r--", "user", "user")
    folder = sandbox.files.get_info("/home/user")
    assert folder.type == FileType.DIR and folder.permissions.startswith("d")
    assert sandbox.files.exists("about.txt") and not sandbox.files.exists("missing")
    with pytest.raises(NotFoundException):
        sandbox.files.get_info("missing")


def test_a_link_says_where_it_leads(sandbox):
    sandbox.files.write("target.txt", "123")
    sandbox.commands.run("ln -sf target.txt link; ln -sf nowhere broken")
    info = sandbox.files.get_info("link")
    assert info.symlink_target == "/home/user/target.txt"
    assert (info.type, info.size) == (FileType.FILE, 3)
    [listed] = [one for one in sandbox.files.list(".") if one.name == "link"]
    assert listed.symlink_target == "/home/user/target.txt"
    assert "broken" not in [one.name for one in sandbox.files.list(".")]


def test_renaming_and_removing(sandbox):
    sandbox.files.write("old.txt", "x")
    info = sandbox.files.rename("old.txt", "new/folder/new.txt")
    assert info.path == "/home/user/new/folder/new.txt"
    assert not sandbox.files.exists("old.txt") and sandbox.files.read("new/folder/new.txt") == "x"
    with pytest.raises(NotFoundException):
        sandbox.files.rename("old.txt", "elsewhere")
    sandbox.files.remove("new")
    sandbox.files.remove("new")
    assert not sandbox.files.exists("new")


def test_changes_of_a_folder_are_polled(sandbox):
    sandbox.files.make_dir("watched/below")
    handle = sandbox.files.watch_dir("watched", recursive=True)
    sandbox.files.write("watched/new.txt", "x")
    sandbox.commands.run("mkdir watched/later && echo y > watched/later/deep.txt && rm watched/new.txt")
    seen = {(one.type, one.name) for one in handle.get_new_events()}
    for wanted in ((FilesystemEventType.CREATE, "new.txt"), (FilesystemEventType.WRITE, "new.txt"),
                   (FilesystemEventType.REMOVE, "new.txt"), (FilesystemEventType.CREATE, "later")):
        assert wanted in seen, seen
    assert handle.get_new_events() == []
    handle.stop()
    with pytest.raises(NotFoundException):
        sandbox.files.watch_dir("missing")
    with pytest.raises(InvalidArgumentException):
        sandbox.files.watch_dir("watched/later/deep.txt")


def test_changes_of_a_folder_as_a_stream():
    async def main():
        made = await AsyncSandbox.create()
        seen, came = [], asyncio.Event()

        async def on_event(event):
            seen.append((event.type, event.name))
            if event == ("x",) or event.type == FilesystemEventType.WRITE:
                came.set()
        try:
            await made.files.make_dir("w")
            handle = await made.files.watch_dir("w", on_event=on_event)
            await made.files.write("w/f.txt", "x")
            await asyncio.wait_for(came.wait(), 30)
            assert (FilesystemEventType.WRITE, "f.txt") in seen
            await handle.stop()
        finally:
            await made.kill()
    asyncio.run(main())


def test_metadata_of_files_stays_with_them(sandbox):
    try:
        info = sandbox.files.write("meta.txt", "x", metadata={"author": "me", "step": "1"})
    except TypeError as why:
        pytest.skip(f"this version of the client has no metadata: {why}")
    assert info.metadata == {"author": "me", "step": "1"}
    assert sandbox.files.get_info("meta.txt").metadata == {"author": "me", "step": "1"}
    sandbox.files.rename("meta.txt", "meta2.txt")
    assert sandbox.files.get_info("meta2.txt").metadata["author"] == "me"
    sandbox.files.write("meta2.txt", "y")
    assert not sandbox.files.get_info("meta2.txt").metadata
    with pytest.raises(InvalidArgumentException):
        sandbox.files.write("meta3.txt", "x", metadata={"k": "v" * 5000})


def test_two_clients_write_at_once(sandbox):
    threads = [threading.Thread(target=sandbox.files.write, args=(f"par/{i}", str(i) * 10000)) for i in range(8)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert [sandbox.files.read(f"par/{i}") for i in range(8)] == [str(i) * 10000 for i in range(8)]


def test_events_with_entries(sandbox):
    sandbox.files.make_dir("with-entries")
    try:
        handle = sandbox.files.watch_dir("with-entries", include_entry=True)
    except TypeError as why:
        pytest.skip(f"this version of the client has no include_entry: {why}")
    sandbox.files.write("with-entries/f.txt", "12345")
    written = [one for one in handle.get_new_events() if one.type == FilesystemEventType.WRITE]
    assert written and written[0].entry.path == "/home/user/with-entries/f.txt" and written[0].entry.size == 5
    handle.stop()
