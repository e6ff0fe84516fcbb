"""What `make deb` packs and `make install` installs: programs, a manual page of every command, unit files,
documents whose links hold, the profile for containers; and that lintian has nothing to say about it."""
import gzip
import os
import re
import shutil
import subprocess

import pytest
import support

BUILD = support.BAILEY.parent
DOCUMENTS = "usr/share/doc/bailey"

pytestmark = pytest.mark.skipif(not shutil.which("dpkg-deb") or not shutil.which("dpkg-shlibdeps"),
                                reason="a package is made with dpkg-deb and dpkg-shlibdeps, which are not here")


def commands():
    """Every command, from the rows of the command line."""
    rows = (support.REPO / "src/cli/commands.c").read_text()
    table = rows.partition("command_table[] = {")[2].partition("};")[0]
    found = re.findall(r"&(\w+)_command\b", table)
    assert "run" in found and len(found) > 20, found
    return found


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    """(file, folder it was unpacked to)"""
    here = tmp_path_factory.mktemp("deb")
    # What it packs does not follow the caller's umask.
    done = subprocess.run(["sh", "-c", f"umask 077; {support.REPO}/tools/deb {BUILD} {here}"], text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert done.returncode == 0, done.stdout
    (file,) = here.glob("bailey_*.deb")
    subprocess.run(["dpkg-deb", "-x", file, here / "root"], check=True)
    return file, here / "root"


def test_programs_units_and_settings(package):
    root = package[1]
    for name in ("usr/bin/bailey", "usr/libexec/bailey-engine"):
        assert os.access(root / name, os.X_OK), name
    for name in ("usr/lib/systemd/system/bailey.service", "usr/lib/systemd/system/bailey.socket",
                 "etc/default/bailey", "usr/share/bash-completion/completions/bailey",
                 "usr/share/zsh/vendor-completions/_bailey"):
        assert (root / name).is_file(), name
    assert not (root / "lib").exists(), "a folder that is a link on today's Debian"


def test_every_command_has_a_manual_page(package):
    pages = package[1] / "usr/share/man/man1"
    for name in ["bailey"] + [f"bailey-{command}" for command in commands()]:
        text = gzip.decompress((pages / f"{name}.1.gz").read_bytes()).decode()
        assert text.startswith(".TH ") and name.replace("-", "\\-") in text, name


def test_the_c_library_is_where_the_linker_and_pkg_config_look(package):
    root = package[1] / "usr"
    (libraries,) = {path.parent for path in root.glob("lib/*/libbailey.so")}
    assert (root / "include/bailey.h").read_bytes() == (support.REPO / "include/bailey.h").read_bytes()
    assert (libraries / "libbailey.so").resolve() == (libraries / "libbailey.so.0").resolve()
    assert (libraries / "libbailey.a").is_file()
    assert f"libdir=${{prefix}}/lib/{libraries.name}\n" in (libraries / "pkgconfig/bailey.pc").read_text()
    assert gzip.decompress((root / "share/man/man3/bailey.3.gz").read_bytes()).startswith(b".TH BAILEY 3")


def test_the_profile_for_containers_is_where_the_documents_say(package):
    profile = "usr/share/bailey/docker-seccomp.json"
    assert (package[1] / profile).read_bytes() == (support.REPO / "deploy/docker/seccomp.json").read_bytes()
    assert f"/{profile}" in (support.REPO / "docs/deploy.md").read_text()


def test_documents_and_their_links(package):
    here = package[1] / DOCUMENTS
    for name in ("README.md", "CHANGELOG.md", "docs/README.md", "docs/sessions.md", "examples/hello.py"):
        assert (here / name).is_file(), name
    # Debian has the license's text at a place of its own; lintian refuses a second copy.
    left_out = {"LICENSE"}
    for page in [here / "README.md", *(here / "docs").glob("*.md")]:
        for link in re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", page.read_text()):
            assert link in left_out or (page.parent / link).exists(), (page, link)


def test_what_it_needs_is_named(package):
    done = subprocess.run(["dpkg-deb", "-f", package[0], "Depends", "Version", "Maintainer"], text=True, check=True,
                          stdout=subprocess.PIPE)
    assert "libc6" in done.stdout and "libcurl" in done.stdout and "libmicrohttpd" in done.stdout, done.stdout
    assert "@" not in re.sub(r"<[^>]*>", "", done.stdout), "a word that was not filled in"


def test_nobody_else_can_write_what_it_installs(package):
    done = subprocess.run(["dpkg-deb", "-c", package[0]], text=True, check=True, stdout=subprocess.PIPE)
    for line in done.stdout.splitlines():
        mode, owner = line.split()[:2]
        assert owner == "root/root", line
        assert mode[0] == "l" or (mode[5] == mode[8] == "-" and mode[7] == "r"), line


def test_lintian_finds_nothing(package):
    if not shutil.which("lintian"):
        pytest.skip("lintian is not installed; tools/setup test installs it")
    if b"__asan_init" in support.BAILEY.read_bytes():
        pytest.skip("lintian looks at programs as they are shipped, and these have a sanitizer in them")
    done = subprocess.run(["lintian", "--fail-on", "error,warning", package[0]], text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert done.returncode == 0, done.stdout
