"""Configuration: flags over environment over bailey.yaml over defaults, each with its source."""
import pytest
import support

DEFAULTS = {
    "SANDBOX_TYPE": "local",
    "SANDBOX_TIMEOUT_SEC": "30",
    "SANDBOX_MAX_OUTPUT_KB": "10",
    "SANDBOX_BLOCK_DANGEROUS_IMPORTS": "false",
    "SANDBOX_BLOCKED_IMPORTS": "os,subprocess,shutil,socket",
    "SANDBOX_STORE_CODE": "on_error",
    "SANDBOX_SUPPORTED_LANGUAGES": "python,javascript,bash",
    "SANDBOX_AUTO_INSTALL": "false",
    "SANDBOX_ISOLATION": "standard",
    "SANDBOX_MEMORY_LIMIT": "1g",
    "SANDBOX_PIDS_LIMIT": "256",
    "SANDBOX_DISK_LIMIT": "512m",
    "DOCKER_IMAGE": "bailey-sandbox:latest",
    "DOCKER_CPU_LIMIT": "0.5",
    "DOCKER_MEMORY_LIMIT": "256m",
}


def values(**kwargs):
    """key -> row of `bailey config --json`, however the rows are arranged."""
    done = support.bailey("config", "--json", **kwargs)
    assert done.status == 0, done
    found = {}

    def walk(node):
        if isinstance(node, dict):
            for key, value in node.items():
                if isinstance(value, dict) and "source" in value:
                    found[key] = value
                walk(value)
            for field in ("key", "env", "name"):
                if "source" in node and isinstance(node.get(field), str):
                    found[node[field]] = node
        elif isinstance(node, list):
            for each in node:
                walk(each)

    walk(done.json())
    return found


def test_defaults_are_those_promised():
    got = values()
    for key, value in DEFAULTS.items():
        assert str(got[key]["value"]).lower() == value, key
        assert got[key]["source"] == "default", key


def test_the_environment_beats_the_file_and_the_file_the_default(room):
    room.write("bailey.yaml", "sandbox:\n  timeout_sec: 11\n  max_output_kb: 12\n")
    got = values(room=room, env={"SANDBOX_MAX_OUTPUT_KB": "13"})
    assert (str(got["SANDBOX_TIMEOUT_SEC"]["value"]), got["SANDBOX_TIMEOUT_SEC"]["source"]) == (
        "11", "file")
    assert (str(got["SANDBOX_MAX_OUTPUT_KB"]["value"]), got["SANDBOX_MAX_OUTPUT_KB"]["source"]) == (
        "13", "environment")
    assert got["SANDBOX_PIDS_LIMIT"]["source"] == "default"


def test_flags_beat_everything(room):
    room.write("bailey.yaml", "sandbox:\n  timeout_sec: 11\n")
    result = support.run_json("pass", "--timeout", "14", room=room,
                              env={"SANDBOX_TIMEOUT_SEC": "13"})
    assert result.meta["resource_limits"]["timeout_s"] == 14
    result = support.run_json("pass", room=room, env={"SANDBOX_TIMEOUT_SEC": "13"})
    assert result.meta["resource_limits"]["timeout_s"] == 13
    result = support.run_json("pass", room=room)
    assert result.meta["resource_limits"]["timeout_s"] == 11


def test_the_table_says_where_each_came_from(room):
    path = room.write("bailey.yaml", "sandbox:\n  timeout_sec: 11\n")
    text = support.bailey("config", room=room, env={"SANDBOX_PIDS_LIMIT": "99"}).stdout
    lines = {line.split()[0]: line for line in text.splitlines() if line.startswith("SANDBOX_")}
    assert "11" in lines["SANDBOX_TIMEOUT_SEC"] and path.name in lines["SANDBOX_TIMEOUT_SEC"]
    assert "99" in lines["SANDBOX_PIDS_LIMIT"] and "environment" in lines["SANDBOX_PIDS_LIMIT"]
    assert "default" in lines["SANDBOX_ISOLATION"]


@pytest.mark.parametrize("key, value", [
    ("SANDBOX_TYPE", "chroot"),
    ("SANDBOX_TIMEOUT_SEC", "0"),
    ("SANDBOX_TIMEOUT_SEC", "soon"),
    ("SANDBOX_MAX_OUTPUT_KB", "-3"),
    ("SANDBOX_BLOCK_DANGEROUS_IMPORTS", "maybe"),
    ("SANDBOX_STORE_CODE", "sometimes"),
    ("SANDBOX_ISOLATION", "strictest"),
    ("SANDBOX_MEMORY_LIMIT", "12x"),
    ("SANDBOX_MEMORY_LIMIT", "99999999999999999999g"),
    ("SANDBOX_CPU_LIMIT", "-1"),
    ("SANDBOX_PIDS_LIMIT", "1.5"),
    ("SANDBOX_DISK_LIMIT", "1k"),
    ("SANDBOX_ID_BASE", "-5"),
])
def test_a_bad_value_names_key_value_and_what_is_allowed(key, value):
    done = support.bailey("run", "-c", "print('ran')", env={key: value})
    assert (done.status, done.out) == (125, b"")
    assert key in done.stderr and value in done.stderr
    assert len(done.stderr.strip()) > len(key) + len(value) + 20  # and says what is allowed


def test_a_bad_value_says_which_words_are_allowed():
    stderr = support.bailey("config", env={"SANDBOX_STORE_CODE": "sometimes"}).stderr
    assert all(word in stderr for word in ("always", "on_error", "never"))


def test_a_bad_value_in_the_file_names_file_and_key(room):
    room.write("bailey.yaml", "sandbox:\n  timeout_sec: 0\n")
    done = support.bailey("run", "-c", "print('ran')", room=room)
    assert (done.status, done.out) == (125, b"")
    assert "bailey.yaml" in done.stderr and "timeout_sec" in done.stderr


def test_an_unknown_key_names_the_nearest_known_one(room):
    room.write("bailey.yaml", "sandbox:\n  timeout_sek: 5\n")
    done = support.bailey("run", "-c", "print('ran')", room=room)
    assert (done.status, done.out) == (125, b"")
    assert "timeout_sek" in done.stderr and "timeout_sec" in done.stderr


@pytest.mark.parametrize("text", [
    "sandbox: [",
    "sandbox:\n  timeout_sec: 5\n  timeout_sec: 6\n",
    "a: &x 1\nb: *x\n",
    "just text",
    "\x00",
    "sandbox: !!python/object:os.system {}\n",
], ids=["broken", "duplicate", "alias", "scalar", "NUL", "tag"])
def test_a_broken_file_is_an_error_that_names_it(room, text):
    room.write("bailey.yaml", text)
    done = support.bailey("run", "-c", "print('ran')", room=room)
    assert (done.status, done.out) == (125, b"")
    assert "bailey.yaml" in done.stderr


def test_an_empty_file_is_fine(room):
    room.write("bailey.yaml", "")
    assert support.bailey("run", "-c", "print('ran')", room=room).out == b"ran\n"


def test_url_and_template_together_are_an_error(room):
    room.write("bailey.yaml", "providers:\n  code_interpreter:\n    settings:\n"
               "      sandbox_url: http://x\n      sandbox_template: y\n")
    done = support.bailey("config", room=room)
    assert done.status == 125
    assert "sandbox_url" in done.stderr and "sandbox_template" in done.stderr


def test_a_disk_larger_than_memory_is_an_error_that_says_so():
    done = support.bailey("run", "--memory", "64m", "--disk", "128m", "-c", "print('ran')")
    assert (done.status, done.out) == (125, b"")
    assert "disk" in done.stderr and "memory" in done.stderr


def test_a_runtime_that_is_not_built_in_is_never_replaced_silently():
    done = support.bailey("run", "-c", "print('ran')", env={"SANDBOX_TYPE": "kubernetes"})
    assert (done.status, done.out) == (125, b"")
    assert "'kubernetes' is not in this build" in done.stderr


@pytest.mark.parametrize("command", ["config", "doctor"])
def test_a_variable_that_is_no_key_is_named(command):
    env = {"SANDBOX_MEMRY_LIMIT": "1g", "E2B_API_KEY": "secret-value", "SANDBOX_TIMEOUT_SEC": "5", "SANDBOX_EMPTY": ""}
    done = support.bailey(command, env=env)
    assert "SANDBOX_MEMRY_LIMIT is set and has no effect" in done.stderr, done
    assert "did you mean SANDBOX_MEMORY_LIMIT?" in done.stderr and "E2B_API_KEY" in done.stderr, done
    for name in ("SANDBOX_TIMEOUT_SEC", "SANDBOX_EMPTY", "secret-value"):
        assert name not in done.stderr, done


def test_a_language_that_is_switched_off_is_refused():
    done = support.bailey("run", "--language", "bash", "-c", "echo ran",
                          env={"SANDBOX_SUPPORTED_LANGUAGES": "python"})
    assert (done.status, done.out) == (125, b"")
    assert "bash" in done.stderr and "SANDBOX_SUPPORTED_LANGUAGES" in done.stderr
