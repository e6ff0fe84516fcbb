"""version, help, completion and man pages: every option, printed from the rows that parse them."""
import pathlib
import re
import shlex
import shutil
import subprocess

import pytest
import support

COMMANDS = tuple(support.bailey("help", "--names").stdout.split())
PROMISED = {
    "run": ("--json", "--timeout", "--memory", "--cpus", "--pids", "--disk", "--max-output",
            "--env", "--file", "--out", "--isolation", "--stdin", "--language", "--raw"),
    "exec": ("--json", "--timeout", "--memory", "--cpus", "--pids", "--disk", "--max-output",
             "--env", "--file", "--out", "--isolation", "--stdin", "--session", "--detach",
             "--cwd"),
    "session": ("--name", "--data", "--env", "--all", "--json"),
    "shell": ("--session", "--attach"),
    "logs": ("--follow",),
    "events": ("--follow", "--session", "--json"),
    "daemon": ("--follow", "--json"),
    "upgrade": ("--program", "--socket", "--state", "--json"),
    "serve": ("--socket", "--state", "--on-demand", "--ready-fd", "--listen"),
    "reload": ("--json", "--config"),
    "tool": ("--session", "--list"),
    "doctor": ("--json",),
    "config": ("--json",),
}
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]+")


def help_of(command):
    done = support.bailey("help", command)
    assert done.status == 0, done
    return done.stdout


def plain(man):
    """A page without roff's escapes."""
    return man.replace("\\-", "-").replace("\\fB", "").replace("\\fR", "").replace("\\fI", "")


def man_pages():
    texts = [support.bailey("man").stdout]
    texts += [support.bailey("man", command).stdout for command in COMMANDS]
    return plain("\n".join(texts))


def test_version_is_one_line():
    done = support.bailey("version")
    assert done.status == 0
    assert re.fullmatch(r"bailey \d+\.\d+\S*.*\n", done.stdout)
    assert support.bailey("--version").stdout == done.stdout


def test_help_lists_the_commands():
    text = support.bailey("help").stdout
    assert {"run", "exec", "session", "code", "template", "serve", "doctor", "man"} <= set(COMMANDS)
    for command in COMMANDS:
        assert re.search(rf"^\s+{command}\b", text, re.M), command
    assert support.bailey("--help").stdout == text


@pytest.mark.parametrize("command", PROMISED)
def test_help_of_a_command_has_every_promised_option(command):
    options = set(OPTION.findall(help_of(command)))
    assert set(PROMISED[command]) <= options


@pytest.mark.parametrize("command", COMMANDS)
def test_help_is_the_same_both_ways_and_says_more_than_the_name(command):
    text = help_of(command)
    assert support.bailey(command, "--help").stdout == text
    assert f"bailey {command}" in text


@pytest.mark.parametrize("command", PROMISED)
def test_each_option_has_a_sentence(command):
    for line in help_of(command).splitlines():
        found = re.match(r"\s+(?:-\w, )?(--[a-z-]+)(?:[ =]\S+)?\s*(.*)", line)
        if found and not found[2]:
            following = help_of(command).split(line, 1)[1].splitlines()[1]
            assert following.strip(), found[1]


def test_each_command_of_an_example_is_a_line_to_copy():
    seen = 0
    for command in COMMANDS:
        text = help_of(command)
        assert "Example: " not in text, command
        lines = text.partition("\nExample:\n")[2].partition("\n\n")[0].splitlines()
        for line in lines:
            assert re.match(r"  ([A-Z_]+=\w+ )?bailey ", line) and len(line) <= 80 and shlex.split(line), (command, line)
            assert f"\n{line}\n" in plain(support.bailey("man", command).stdout), line
        seen += len(lines)
    assert seen > 10


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_has_every_option_of_every_command(shell):
    script = support.bailey("completion", shell)
    assert script.status == 0, script
    for command in COMMANDS:
        assert command in script.stdout
        for option in OPTION.findall(help_of(command)):
            word = option if shell != "fish" else f" -l {option[2:]} "
            assert word in script.stdout, f"{command} {option}"


def test_bash_accepts_its_completion_and_completes():
    script = support.bailey("completion", "bash").stdout
    assert subprocess.run(["bash", "-n"], input=script, text=True).returncode == 0
    ask = script + ('\nCOMP_WORDS=(bailey run --time); COMP_CWORD=2; '
                    'COMP_LINE="bailey run --time"; '
                    'COMP_POINT=${#COMP_LINE}\n'
                    'f=$(complete -p bailey | sed "s/.*-F \\([^ ]*\\) .*/\\1/")\n'
                    '$f bailey --time run; echo "${COMPREPLY[@]}"')
    done = subprocess.run(["bash", "--norc"], input=ask, text=True, capture_output=True)
    # a process substitution's shell may end after its parent and then comes to us
    support.wait_until(lambda: support.reap_orphans() or not support.descendants(), "bash is gone")
    assert "--timeout" in done.stdout, done


def test_zsh_accepts_its_completion():
    if not shutil.which("zsh"):
        pytest.skip("zsh is not installed: tools/setup test installs it")
    script = support.bailey("completion", "zsh").stdout
    assert subprocess.run(["zsh", "-n"], input=script, text=True).returncode == 0


def test_man_pages_have_every_option_of_every_command():
    pages = man_pages()
    for command in COMMANDS:
        for option in OPTION.findall(help_of(command)):
            assert option in pages, f"{command} {option}"


def test_man_pages_are_well_formed():
    page = support.bailey("man").stdout
    assert re.search(r"^\.(TH|Dd)\b", page, re.M), page[:200]
    assert re.search(r'^\.S[Hh] "?NAME', page, re.M)


def see_also(page):
    """The pages that a page refers to, as "bailey-run"."""
    return set(re.findall(r"^\.BR (bailey(?:\\-\w+)?) \(1\)", page.partition("\n.SH SEE ALSO\n")[2], re.M))


def test_make_installs_every_man_page_that_another_refers_to(room):
    top = pathlib.Path(__file__).parents[2]
    build = room.path / "build"
    build.mkdir()
    for name in ("bailey", "bailey-engine", "src"):  # src: the C library
        (build / name).symlink_to(pathlib.Path(support.BAILEY).parent / name)
    done = subprocess.run(["make", "-s", "-C", str(top), "install-files", f"BUILD={build}",
                           f"DESTDIR={room.path}/root", "PREFIX=/usr"], text=True, capture_output=True)
    assert done.returncode == 0, done
    pages = {path.name.removesuffix(".1"): path.read_text()
             for path in (room.path / "root/usr/share/man/man1").iterdir()}
    assert set(pages) == {"bailey"} | {f"bailey-{command}" for command in COMMANDS}
    referred = {name.replace("\\-", "-") for page in pages.values() for name in see_also(page)}
    assert referred == set(pages)


def test_groff_has_no_complaint_about_the_man_pages():
    if not shutil.which("groff"):
        pytest.skip("groff is not installed: tools/setup test installs it")
    for words in [(), *((command,) for command in COMMANDS)]:
        done = subprocess.run(["groff", "-man", "-Tutf8", "-ww", "-z"], text=True, capture_output=True,
                              input=support.bailey("man", *words).stdout)
        assert (done.returncode, done.stderr) == (0, ""), words


def test_man_pages_name_the_exit_statuses_and_the_variables():
    pages = man_pages()
    for word in ("124", "125", "126", "127", "SANDBOX_TIMEOUT_SEC", "SANDBOX_ISOLATION"):
        assert word in pages, word


@pytest.mark.parametrize("args", [
    ["nonsense"], ["help", "nonsense"], ["completion", "fish-and-chips"], ["man", "nonsense"],
    ["version", "stray"], ["--config"], ["shell", "stray"],
], ids=" ".join)
def test_what_is_unknown_is_bad_input_that_helps(args):
    done = support.bailey(*args)
    assert done.status == 125
    assert "bailey" in done.stderr
    for word in args[-1:]:
        assert word in done.stderr


def test_bailey_alone_is_a_short_help_by_groups():
    done = support.bailey()
    assert (done.status, done.stderr) == (0, "")
    assert len(done.stdout.splitlines()) <= 24, "fits on a terminal"
    assert all(len(line) <= 80 for line in done.stdout.splitlines())
    listed, _, after = done.stdout.partition("\nTo begin:\n")
    words = listed.split()
    for command in COMMANDS:
        assert command in words, command
    for title in ("Run code", "Sessions", "Server", "Agents and API"):
        assert re.search(rf"^  {title} ", listed, re.M), title
        assert f"\n{title}:\n" in support.bailey("help").stdout
    assert "bailey run -c" in after and "bailey help COMMAND" in after


def test_a_mistyped_command_is_told_the_nearest():
    done = support.bailey("rum")
    assert done.status == 125
    assert "run" in done.stderr.replace("rum", "")


def test_what_stands_in_a_wrong_place_is_told_the_right_one():
    assert "options of a command follow it" in support.bailey("--config", "a.yaml", "run", "-c", "1").stderr
    assert "usage: bailey shell -s NAME" in support.bailey("shell", "work").stderr
    assert "which session? -s NAME" in support.bailey("code", "-c", "1").stderr
    assert "which shell? usage: bailey completion" in support.bailey("completion").stderr
    assert "usage: bailey context rm -s NAME CONTEXT..." in support.bailey("context", "rm", "-s", "work").stderr
    assert "usage: bailey context ls -s NAME\n" in support.bailey("context", "ls", "work").stderr
