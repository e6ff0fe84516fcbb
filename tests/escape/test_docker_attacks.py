"""
The attacks behind the other wall: guests of containers. First those of the other files that make
sense there, as they are; then docs/security.md, attacks 43 and 70, and what only a container has: Docker's socket,
its masks, a warden of the guest's own id whose frames are on its descriptors 0 and 1.
"""
import importlib
import json
import sys

import pytest

import attack
import runtimes
import serve
import support
from attack import held

ONLY_WAYS = runtimes.CONTAINERS
SAME = {
    "test_escape_filesystem": """
        test_01_host_files_cannot_be_read test_03_symlink_to_a_host_file_is_not_fetched
        test_06_hard_link_to_a_file_outside test_07_links_planted_where_the_engine_writes
        test_07_output_folder_replaced_by_a_link test_07_script_and_artifact_are_not_redirected
        test_08_odd_nodes_are_skipped_and_never_block test_10_inode_flood test_10_deep_tree_is_gone_afterwards
        test_10_sparse_file_costs_nothing_outside
        test_11_handles_and_the_lower_layer
        test_12_mount_calls test_14_chroot_with_a_kept_folder test_15_two_boxes_share_nothing""",
    "test_escape_processes": """
        test_17_no_descriptor_but_the_three test_18_working_folder_that_is_gone
        test_18_files_are_copied_in_only_beneath_the_box test_19_runtime_cannot_be_overwritten test_20_ptrace_and_friends_of_init_parent_and_host
        test_21_signals_reach_only_the_own_tree test_21_suicide_by_everything_is_reported
        test_22_host_processes_are_invisible test_22_keyrings test_23_kernel_settings
        test_24_cgroups_are_out_of_reach
        test_25_daemons_end_with_the_run test_25_daemons_end_with_a_timeout test_26_forks_end_at_the_limit
        test_26_threads_end_at_the_limit test_26_bombs_end_with_the_run test_26_vfork_storm
        test_27_environment_has_only_what_was_declared test_28_limits_and_priorities_cannot_be_raised""",
    "test_escape_privilege": """
        test_29_no_new_namespace_by_any_call test_30_setns
        test_31_setuid_files_and_capabilities_give_nothing test_31_every_capability_set_is_empty
        test_32_ids_and_groups
        test_33_socket_families test_33_ports_and_sockets_of_the_host test_34_dangerous_calls test_35_io_uring
        test_36_other_calling_conventions test_37_high_halves_of_arguments test_37_personality
        test_39_own_filter_weakens_nothing test_39_listener_weakens_nothing
        test_40_other_ways_to_execute_gain_nothing test_41_terminal_calls_are_refused
        test_42_known_kernel_routes""",
    "test_escape_resources": """
        test_57_tmpfs_fill_is_named test_57_memory_ends_at_the_limit test_57_page_cache_flood
        test_58_spinning_threads_end_at_the_wall_limit test_58_signal_loop
        test_59_flood_is_cut_and_counted test_59_streams_do_not_mix_and_small_writes_count
        test_59_invalid_utf8_and_control_bytes test_59_pipe_that_nobody_reads test_59_reader_that_goes_away
        test_60_forged_frames_are_only_output
        test_60_forged_artifacts_are_not_believed test_61_every_exit_is_the_true_one test_61_core_dump_stays_nowhere
        test_62_sleep_past_the_deadline test_62_stopped_and_uninterruptible""",
    "test_escape_trust": """
        test_44_outputs_do_not_become_configuration_or_hooks test_44_names_do_not_leave_the_folder
        test_44_files_of_the_host_that_others_execute test_45_host_variables_and_modules_run_nowhere
        test_45_overridden_builtins_do_not_forge_the_result""",
    "test_kernel_memory": """
        test_76_uncounted_kernel_memory_is_refused test_76_uncounted_kernel_memory_is_watched
        test_76_ordinary_numbers_of_sockets_and_locks_are_no_attack
        test_76_copying_goes_on_without_attributes test_82_proc_locks_is_hidden""",
    "test_session_guest": """
        test_59_output_without_an_end test_61_a_child_that_keeps_the_output_open test_63_nothing_is_lost_between_connections
        test_60_frames_on_every_descriptor test_20_the_warden_cannot_be_reached test_21_kill_everything
        test_17_what_a_command_holds""",
    "test_session_neighbours": """
        pair test_15_nothing_is_shared test_16_sockets_of_the_daemon test_16_files_of_the_other
        test_65_executions_of_the_other test_65_outputs_and_datasets_of_the_other
        test_69_tools_with_ids_of_another""",
    "test_session_outputs": """
        test_07_hostile_names_stay_in_the_folder test_07_links_planted_outside_are_not_followed
        test_08_what_is_no_file test_08_swapped_while_it_is_collected test_08_output_folder_is_a_link
        test_09_copies_of_a_folder_with_links""",
    "test_session_paths": """
        planted test_02_odd_names_stay_inside test_03_links_at_the_end test_04_links_on_the_way
        test_03_links_that_stay_inside_work test_18_a_folder_that_leads_out""",
    "test_session_races": "test_05_swapped_while_the_api_works test_05_moved_away_while_it_is_written",
}


def take_over(attacks):
    here = sys.modules[__name__]
    for file, names in attacks.items():
        pytest.register_assert_rewrite(file)
        module = importlib.import_module(file)
        for name in names.split():
            assert not hasattr(here, name), f"{name} is in two files"  # and fixtures that these tests need
            setattr(here, name, getattr(module, name))


take_over(SAME)


@pytest.fixture(scope="module", params=runtimes.CONTAINERS, autouse=True)
def runtime(request):
    yield from runtimes.surround(request, request.param)


@pytest.fixture
def way(request, runtime):
    return support.Way(request.param)


@pytest.fixture(scope="module")
def daemon(runtime):
    with serve.Daemon() as running:
        generation = running.get("/v1/info")["generation"]
        yield running
        assert running.get("/v1/info")["generation"] == generation, "the broker died"


# --- 43: the engine's own doors ------------------------------------------------------------------

SOCKETS = r"""
import socket
PLACES = ["/var/run/docker.sock", "/run/docker.sock", "/run/containerd/containerd.sock", "/run/crio/crio.sock",
          "/var/run/cri-dockerd.sock", "/run/podman/podman.sock", "/run/buildkit/buildkitd.sock", REAL]
found["places"] = {p: attempt(os.stat, p) for p in PLACES}
found["token"] = attempt(os.listdir, "/var/run/secrets/kubernetes.io/serviceaccount")
found["ports"] = {}
for port in (2375, 2376, 10250, 10255, 6443, 8080):
    for host in ("127.0.0.1", "172.17.0.1", "169.254.169.254", "10.0.0.1"):
        with socket.socket() as s:
            s.settimeout(2)
            found["ports"][f"{host}:{port}"] = errno.errorcode.get(s.connect_ex((host, port)), "?")
found["sockets"] = []
for top, folders, files in os.walk("/", onerror=None):
    folders[:] = [f for f in folders if os.path.join(top, f) not in ("/proc", "/sys")]
    for name in files:
        try:
            if os.lstat(os.path.join(top, name)).st_mode & 0o170000 == 0o140000:
                found["sockets"].append(os.path.join(top, name))
        except OSError:
            pass
try:
    found["unix"] = [l.split()[7] for l in open("/proc/net/unix").readlines()[1:] if len(l.split()) > 7]
except OSError as e:
    found["unix"] = []
"""


def test_43_no_door_of_an_engine_is_inside(box, dockerd):
    found = box.probe(SOCKETS.replace("REAL", repr(dockerd.socket)))
    for place, answer in found["places"].items():
        held(answer, "ENOENT", "EACCES", "ENOTDIR")
    held(found["token"], "ENOENT", "EACCES", "ENOTDIR")
    assert set(found["ports"].values()) <= {"ECONNREFUSED", "ENETUNREACH", "EPERM", "EACCES"}, found
    assert found["sockets"] == [] and found["unix"] == [], found


def test_43_names_of_the_engines_sockets_are_not_told(box, dockerd):
    """Neither its folder nor its address is in anything that the guest can read of the warden."""
    found = box.probe(r"""
texts = []
for pid in ("1", "self", str(os.getppid())):
    for name in ("environ", "cmdline", "mountinfo", "cgroup", "status", "maps", "auxv"):
        texts.append(readable(f"/proc/{pid}/{name}"))
found["texts"] = texts
""")
    text = "\n".join(found["texts"])
    assert dockerd.socket not in text and "DOCKER" not in text, text
    assert "docker.sock" not in text


# --- 70: what a caller must not be able to ask for ----------------------------------------------

WISHES = [
    {"mounts": [{"source": "/", "target": "/host"}]}, {"binds": ["/:/host"]}, {"volumes": {"/": "/host"}},
    {"privileged": True}, {"network": "host"}, {"network_mode": "host"}, {"cap_add": ["SYS_ADMIN"]},
    {"user": "0:0"}, {"devices": ["/dev/mem"]}, {"image": "another:1"}, {"runtime": "runc"},
    {"security_opt": ["seccomp=unconfined"]}, {"pid_mode": "host"}, {"HostConfig": {"Privileged": True}},
    {"docker": {"image": "another:1"}}, {"labels": {"bailey.engine": "x"}},
]


@pytest.mark.parametrize("wish", WISHES, ids=lambda wish: next(iter(wish)))
def test_70_what_nobody_may_wish_for(daemon, dockerd, wish):
    before = {one["Id"] for one in dockerd.containers()}
    for path, body in (("/v1/sessions", {}), ("/v1/run", {"code": "print(1)"})):
        reply = daemon.call("POST", path, {**body, **wish})
        assert reply.status == 400, (path, reply)
    assert {one["Id"] for one in dockerd.containers()} <= before


@pytest.mark.parametrize("option", ["--privileged", "--mount=/:/host", "--volume=/:/host", "--user=0",
                                    "--image=another:1", "--network=host", "--cap-add=ALL",
                                    "--device=/dev/mem", "--runtime=runc"])
def test_70_no_option_of_the_command_line(option):
    done = support.bailey("exec", option, "--", "true")
    assert done.status == 125 and option.partition("=")[0] in done.stderr, done


def test_70_names_and_values_do_not_become_settings(daemon, dockerd):
    """A session's name, variables and folders reach Docker as what they are, or not at all."""
    nasty = '","Privileged":true,"x":"'
    made = daemon.session(env={"X": nasty, "HostConfig": "{}"})["id"]
    daemon.exec(made, "true")
    (one,) = dockerd.containers(bailey_engine=True)
    about = dockerd.inspect(one["Id"])
    assert about["HostConfig"]["Privileged"] is False
    assert nasty not in json.dumps(about["Config"]["Env"]), "a session's secrets are not in Docker"
    daemon.end(made)


# --- what only a container has -------------------------------------------------------------------


def test_13_masks_and_read_only_parts(box):
    found = box.probe(r"""
found["masked"] = {p: len(readable(p)) if len(readable(p)) > 8 or not readable(p) else readable(p) for p in (
    "/proc/kcore", "/proc/keys", "/proc/key-users", "/proc/timer_list", "/proc/sched_debug", "/proc/latency_stats",
    "/proc/cmdline", "/proc/schedstat", "/proc/modules")}
found["firmware"] = attempt(os.listdir, "/sys/firmware") if not os.path.isdir("/sys/firmware") else len(os.listdir("/sys/firmware"))
found["writes"] = {p: opened(p, os.O_WRONLY) for p in (
    "/proc/sys/kernel/core_pattern", "/proc/sysrq-trigger", "/proc/sys/vm/overcommit_memory", "/proc/irq/default_smp_affinity",
    "/sys/kernel/uevent_helper", "/sys/kernel/mm/transparent_hugepage/enabled", "/sys/fs/cgroup/memory/memory.limit_in_bytes",
    "/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/cgroup.procs")}
found["mount"] = call("mount", b"none", b"/tmp", b"tmpfs", 0, 0)
found["remount"] = call("mount", 0, b"/", 0, 32 | 4096, 0)
found["umount"] = call("umount2", b"/proc/kcore", 2)
found["sysfs"] = {}
for line in open("/proc/self/mountinfo"):
    words = line.split()
    kind = words[words.index("-") + 1]
    if kind in ("sysfs", "cgroup", "cgroup2") or words[4].startswith("/proc/"):
        found["sysfs"][words[4]] = words[5].split(",")[0]
""")
    for path, answer in found["masked"].items():
        assert answer in (0, "ENOENT", "EACCES", "EPERM", ""), (path, answer)
    assert found["firmware"] in (0, "ENOENT", "EACCES"), found
    for path, answer in found["writes"].items():
        held(answer, "EROFS", "EACCES", "ENOENT", "EPERM", "ENOTDIR")
    for what in ("mount", "remount", "umount"):
        held(found[what], "EPERM", "ENOSYS")
    for place, mode in found["sysfs"].items():
        assert mode == "ro" or place in (  # /dev/null is what is mounted there
            "/proc/cmdline", "/proc/interrupts", "/proc/kcore", "/proc/key-users", "/proc/keys", "/proc/latency_stats",
            "/proc/locks", "/proc/modules", "/proc/sched_debug", "/proc/schedstat", "/proc/timer_list",
            "/proc/timer_stats"), (place, mode)


def test_82_locks_of_other_boxes_are_hidden(box):
    """/proc/locks names every lock of the machine: boxes could send each other messages by it."""
    found = box.probe(r"""
import fcntl
held_file = open("/tmp/locked", "w")
fcntl.flock(held_file, fcntl.LOCK_EX)
found["own"] = readable("/proc/self/fdinfo/%d" % held_file.fileno())
found["locks"] = readable("/proc/locks")
""")
    assert "lock:" in found["own"], "the lock is held, so an unmasked /proc/locks would have it"
    assert found["locks"] in ("", "EACCES", "EPERM", "ENOENT"), found


def test_31_nothing_is_gained_from_the_images_setuid_programs(box):
    """One set of ids, no capability, and no_new_privs: su, mount and passwd are plain programs."""
    found = box.probe(r"""
found["caps"] = {k: status_field(k) for k in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")}
found["init"] = {k: status_field(k, 1) for k in ("CapPrm", "CapEff", "CapBnd", "NoNewPrivs", "Seccomp")}
found["no_new_privs"] = status_field("NoNewPrivs")
found["uids"] = status_field("Uid").split()
found["root"] = call("setuid", 0)
found["groups"] = call("setgroups", 0, 0)
""")
    assert set(found["caps"].values()) == {"0" * 16} and found["no_new_privs"] == "1", found
    for name, value in found["init"].items():  # what of it can be seen
        assert value in (None, "0" * 16, "1", "2", "EACCES", "ENOENT"), (name, value)
    assert len(set(found["uids"])) == 1 and found["uids"][0] != "0", found
    held(found["root"], "EPERM")
    held(found["groups"], "EPERM")


def test_60_frames_to_the_wardens_own_descriptors(daemon, session):
    """Its input and output are frames; whoever had them could speak for it, or to it. The warden has
    the guest's id: only that it is not dumpable keeps /proc/1/fd shut."""
    before = daemon.exec(session, "echo", "before")["stdout"]
    code = attack.prelude() + r"""
import fcntl
found["opened"] = {}
for fd in range(0, 40):
    for flags in (os.O_RDONLY, os.O_WRONLY, os.O_RDWR):
        answer = opened(f"/proc/1/fd/{fd}", flags)
        found["opened"][f"{fd} {flags}"] = answer
        if answer == "ok":
            with open(f"/proc/1/fd/{fd}", "wb", buffering=0) as file:
                file.write(b"\x00\x01\x02\x03" * 4096)
found["list"] = attempt(os.listdir, "/proc/1/fd")
found["mem"] = opened("/proc/1/mem", os.O_RDWR)
found["exe"] = attempt(os.readlink, "/proc/1/exe")
found["root"] = attempt(os.listdir, "/proc/1/root")
found["cwd"] = attempt(os.listdir, "/proc/1/cwd")
found["ptrace"] = call("ptrace", 16, 1, 0, 0)
found["seize"] = call("ptrace", 0x4206, 1, 0, 0)
found["readv"] = call("process_vm_readv", 1, 0, 0, 0, 0, 0)
r, number = raw("pidfd_open", 1, 0)
found["getfd"] = call("pidfd_getfd", r, 0, 0) if r >= 0 else "EPERM"
found["rlimit"] = call("prlimit64", 1, 7, 0, ctypes.create_string_buffer(16))
found["oom"] = opened("/proc/1/oom_score_adj", os.O_WRONLY)
done()
"""
    result = daemon.python(session, code)
    found = json.loads(result["stdout"].splitlines()[-1])
    for what, answer in found["opened"].items():
        held(answer, "EACCES", "EPERM", "ENOENT")
    for what in ("list", "mem", "root", "cwd", "ptrace", "seize", "readv", "getfd", "rlimit", "oom"):
        held(found[what], "EACCES", "EPERM", "ENOENT", "ESRCH", "ENOSYS", "EROFS")
    assert before == "before\n"
    assert daemon.exec(session, "echo", "after")["stdout"] == "after\n"


def test_21_the_warden_hears_no_signal_from_inside(daemon, session):
    for number in (1, 2, 9, 11, 15, 19, 20):
        daemon.exec(session, "sh", "-c", f"kill -{number} 1; true")
        assert daemon.exec(session, "echo", "alive")["stdout"] == "alive\n", number


def test_19_the_warden_and_its_volume_cannot_be_changed(daemon, session, dockerd):
    code = attack.prelude() + r"""
found["writes"] = {p: opened(p, os.O_WRONLY) for p in ("/bailey/bin/bailey", "/proc/1/exe", "/proc/self/exe")}
found["new"] = opened("/bailey/new", os.O_CREAT | os.O_WRONLY)
found["unlink"] = attempt(os.unlink, "/bailey/bin/bailey")
found["rename"] = attempt(os.rename, "/bailey/bin", "/bailey/other")
found["driver"] = [attempt(os.unlink, os.path.join(t, f)) for t, _, fs in os.walk("/bailey/driver") for f in fs]
done()
"""
    found = json.loads(daemon.python(session, code)["stdout"].splitlines()[-1])
    for answer in (*found["writes"].values(), found["new"], found["unlink"], found["rename"], *found["driver"]):
        held(answer, "EROFS", "EACCES", "EPERM", "ETXTBSY", "ENOENT", "EXDEV")
    (volume,) = [name for name in dockerd.volumes() if name.startswith("bailey-warden-")]
    assert volume


def test_59_a_flood_ends_with_its_box_and_harms_nobody(daemon, session):
    """Both streams full, by several at once, while another session works."""
    other = daemon.session()["id"]
    begun = daemon.background(session, "sh", "-c", "yes a & yes b >&2 & yes c", timeout=0)
    # The other's box may have been ready first: what has not begun cannot be ended by a signal.
    support.wait_until(lambda: daemon.get(f"/v1/sessions/{session}/processes/{begun['execution_id']}")
                       ["stdout_bytes"] > 0, "the flood has begun")
    for number in range(5):
        assert daemon.exec(other, "echo", str(number))["stdout"] == f"{number}\n"
    daemon.post(f"/v1/sessions/{session}/processes/{begun['execution_id']}/signal", {"signal": "KILL"})
    assert daemon.wait(begun["execution_id"])["signal"] == 9
    daemon.end(other)
