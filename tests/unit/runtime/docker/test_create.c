/*
 * test_create.c - what a container is asked to be, and that everything which Docker did not do is a
 * refusal: an answer as Docker gives it is made from what was asked, then spoiled item by item.
 */
#include "unit.h"

#include <errno.h>
#include <string.h>

#include "base/isolation.h"
#include "runtime/docker/docker_private.h"

static struct docker_spec docker = {.image = "img:1"};

static struct container_spec container(void)
{
    return (struct container_spec){.docker = &docker,
                                   .engine = "e1",
                                   .state = "s1",
                                   .key = "k1",
                                   .volume = "vol",
                                   .volume_hash = "hash",
                                   .seccomp = "{\"x\":1}",
                                   .memory_bytes = 256 * MIB,
                                   .disk_bytes = 128 * MIB,
                                   .pids = 64,
                                   .cpu_millis = 1500,
                                   .cpu_count = 2};
}

static const char *text_at(const json_t *json, const char *first, const char *second)
{
    return json_text(json_at(json, first, second));
}

static void test_what_is_asked_for(void **state)
{
    struct container_spec spec = container();
    json_t *json = create_json(&spec);
    const json_t *host = json_object_get(json, "HostConfig");
    const json_t *mounts = json_object_get(host, "Mounts");

    (void)state;
    assert_string_equal(text_at(json, "Image", NULL), "img:1");
    assert_string_equal(text_at(json, "User", NULL), "1000:1000");
    assert_string_equal(text_at(json, "Labels", "bailey.engine"), "e1");
    assert_string_equal(text_at(json, "Labels", "bailey.state"), "s1");
    assert_true(json_is_true(json_at(json, "OpenStdin", NULL)));
    assert_true(json_is_true(json_at(json, "StdinOnce", NULL)));
    assert_true(json_is_true(json_at(json, "NetworkDisabled", NULL)));
    assert_true(json_is_false(json_at(json, "Tty", NULL)));
    assert_string_equal(text_at(host, "NetworkMode", NULL), "none");
    assert_string_equal(text_at(host, "IpcMode", NULL), "private");
    assert_string_equal(text_at(host, "CgroupnsMode", NULL), "private");
    assert_string_equal(text_at(host, "LogConfig", "Type"), "none");
    assert_true(json_is_true(json_at(host, "AutoRemove", NULL)));
    assert_true(json_is_true(json_at(host, "ReadonlyRootfs", NULL)));
    assert_int_equal(json_integer_value(json_at(host, "Memory", NULL)), 256 * MIB);
    assert_int_equal(json_integer_value(json_at(host, "MemorySwap", NULL)), 256 * MIB);
    assert_int_equal(json_integer_value(json_at(host, "NanoCpus", NULL)), 1500000000);
    assert_int_equal(json_integer_value(json_at(host, "PidsLimit", NULL)), 65);
    assert_non_null(strstr(text_at(host, "Tmpfs", "/workspace"), "size=134217728,"));
    assert_non_null(strstr(text_at(host, "Tmpfs", "/tmp"), "mode=1777"));
    assert_int_equal(json_array_size(mounts), 1);
    assert_string_equal(text_at(json_array_get(mounts, 0), "Source", NULL), "vol");
    assert_true(json_is_true(json_at(json_array_get(mounts, 0), "ReadOnly", NULL)));
    /* Removed by somebody in the meantime, it is made by this, and has to be known as ours. */
    assert_string_equal(text_at(json_at(json_array_get(mounts, 0), "VolumeOptions", NULL), "Labels",
                                "bailey.volume"),
                        "hash");
    assert_null(json_object_get(host, "Runtime"));
    assert_string_equal(json_text(json_array_get(json_at(json, "Healthcheck", "Test"), 0)), "NONE");
    assert_int_equal(json_array_size(json_object_get(host, "ReadonlyPaths")), 5);
    json_decref(json);
}

static void test_no_more_than_docker_has(void **state)
{
    struct container_spec spec = container();
    json_t *json;

    (void)state;
    spec.cpu_millis = 8000;
    json = create_json(&spec);
    assert_int_equal(json_integer_value(json_at(json, "HostConfig", "NanoCpus")), 2000000000);
    json_decref(json);
    docker.has_network = true;
    docker.runtime = "crun";
    json = create_json(&spec);
    assert_string_equal(text_at(json, "HostConfig", "NetworkMode"), "bridge");
    assert_string_equal(text_at(json, "HostConfig", "Runtime"), "crun");
    assert_true(json_is_false(json_at(json, "NetworkDisabled", NULL)));
    json_decref(json);
    docker.has_network = false;
    docker.runtime = NULL;
}

/* As inspect answers when Docker did all of it. */
static json_t *inspected(const struct container_spec *spec)
{
    json_t *asked = create_json(spec);
    json_t *inspect =
        json_pack("{s:{s:b}, s:{s:s}, s:O, s:[{s:s, s:s, s:s, s:b}]}", "State", "Running", 1,
                  "Config", "User", "1000:1000", "HostConfig", json_object_get(asked, "HostConfig"),
                  "Mounts", "Type", "volume", "Name", "vol", "Destination", "/bailey", "RW", 0);
    json_t *host = json_object_get(inspect, "HostConfig");

    json_object_set_new(host, "PidMode", json_string(""));
    json_object_set_new(host, "CapAdd", json_null());
    json_object_set_new(host, "Devices", json_array());
    json_decref(asked);
    return inspect;
}

static int check(const json_t *inspect, const struct container_spec *spec, struct host_seen *facts,
                 struct error *err)
{
    *err = (struct error){0};
    return create_check(inspect, spec, false, facts, err);
}

static void test_all_was_done(void **state)
{
    struct container_spec spec = container();
    struct host_seen facts = {0};
    struct error err;
    json_t *inspect = inspected(&spec);

    (void)state;
    if (check(inspect, &spec, &facts, &err) < 0)
        fail_msg("%s", err.text);
    assert_true(facts.has_memory && facts.has_pids && facts.has_cpu);
    assert_true(facts.layers & ISOLATION_LAYER_BIT(ISOLATION_LAYER_NETNS));
    assert_true(facts.layers & ISOLATION_LAYER_BIT(ISOLATION_LAYER_CGROUP));
    assert_false(facts.layers & ISOLATION_LAYER_BIT(ISOLATION_LAYER_USERNS));
    assert_false(facts.layers &
                 ISOLATION_LAYER_BIT(ISOLATION_LAYER_LANDLOCK)); /* only the warden can know */
    assert_int_equal(create_check(inspect, &spec, true, &facts, &err), 0);
    assert_true(facts.layers & ISOLATION_LAYER_BIT(ISOLATION_LAYER_USERNS));
    json_decref(inspect);
}

static void test_what_was_not_done(void **state)
{
    static const struct {
        const char *name, *value;
    } rows[] = {
        {"Privileged", "true"},
        {"CapDrop", "[]"},
        {"CapAdd", "[\"SYS_ADMIN\"]"},
        {"SecurityOpt", "[\"seccomp={}\"]"},
        {"SecurityOpt", "[\"no-new-privileges:true\"]"},
        {"SecurityOpt", "[\"no-new-privileges:true\",\"seccomp=unconfined\"]"},
        {"ReadonlyRootfs", "false"},
        {"NetworkMode", "\"bridge\""},
        {"PidMode", "\"host\""},
        {"IpcMode", "\"host\""},
        {"UTSMode", "\"host\""},
        {"UsernsMode", "\"host\""},
        {"CgroupnsMode", "\"host\""},
        {"Devices", "[{\"PathOnHost\":\"/dev/kvm\"}]"},
        {"DeviceRequests", "[{\"Count\":-1}]"},
        {"Binds", "[\"/:/host\"]"},
        {"VolumesFrom", "[\"other\"]"},
        {"Tmpfs", "{}"},
        {"MaskedPaths", "[\"/proc/kcore\"]"},
        {"MaskedPaths", "null"},
        {"ReadonlyPaths", "[]"},
        {"ReadonlyPaths", "null"},
        {"ShmSize", "1073741824"},
        {"Memory", "536870912"},
        {"PidsLimit", "4096"},
    };
    struct container_spec spec = container();

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        json_t *inspect = inspected(&spec);
        struct host_seen facts;
        struct error err;

        json_object_set_new(json_object_get(inspect, "HostConfig"), rows[i].name,
                            json_loads(rows[i].value, JSON_DECODE_ANY, NULL));
        if (check(inspect, &spec, &facts, &err) != -EPERM)
            fail_msg("%s: %s was taken", rows[i].name, rows[i].value);
        assert_ptr_equal(err.code, ERROR_REFUSED);
        json_decref(inspect);
    }
}

static void test_other_mounts_and_users(void **state)
{
    struct container_spec spec = container();
    json_t *inspect = inspected(&spec);
    json_t *mounts = json_object_get(inspect, "Mounts");
    struct host_seen facts;
    struct error err;

    (void)state;
    json_array_append_new(mounts, json_pack("{s:s, s:s}", "Type", "bind", "Source", "/etc"));
    assert_int_equal(check(inspect, &spec, &facts, &err), -EPERM);
    json_array_clear(mounts);
    assert_int_equal(check(inspect, &spec, &facts, &err), -EPERM);
    json_decref(inspect);
    inspect = inspected(&spec);
    json_object_set_new(json_object_get(inspect, "Config"), "User", json_string("root"));
    assert_int_equal(check(inspect, &spec, &facts, &err), -EPERM);
    json_object_set_new(json_object_get(inspect, "Config"), "User", json_string("1000:1000"));
    assert_int_equal(check(inspect, &spec, &facts, &err), 0);
    json_object_set_new(json_object_get(inspect, "Config"), "Healthcheck",
                        json_pack("{s:[s,s]}", "Test", "CMD-SHELL", "true"));
    assert_int_equal(check(inspect, &spec, &facts, &err), -EPERM);
    json_object_set_new(json_object_get(inspect, "Config"), "Healthcheck",
                        json_pack("{s:[s]}", "Test", "NONE"));
    assert_int_equal(check(inspect, &spec, &facts, &err), 0);
    json_object_set_new(json_object_get(inspect, "State"), "Running", json_false());
    assert_int_equal(check(inspect, &spec, &facts, &err), -EPIPE);
    json_decref(inspect);
}

/* A network of Docker's is not the machine's, nor that of another container. */
static void test_whose_network(void **state)
{
    static const char *const others[] = {"host", "container:0123", ""};
    struct container_spec spec = container();
    json_t *inspect;
    struct host_seen facts;
    struct error err;

    (void)state;
    docker.has_network = true;
    inspect = inspected(&spec);
    assert_int_equal(check(inspect, &spec, &facts, &err), 0);
    assert_false(facts.layers & ISOLATION_LAYER_BIT(ISOLATION_LAYER_NETNS));
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        json_object_set_new(json_object_get(inspect, "HostConfig"), "NetworkMode",
                            json_string(others[i]));
        assert_int_equal(check(inspect, &spec, &facts, &err), -EPERM);
    }
    json_decref(inspect);
    docker.has_network = false;
}

/* Where the kernel cannot count, Docker says so by 0 or -1: it is told, not hidden. */
static void test_limits_that_nobody_holds(void **state)
{
    struct container_spec spec = container();
    json_t *inspect = inspected(&spec);
    json_t *host = json_object_get(inspect, "HostConfig");
    struct host_seen facts;
    struct error err;

    (void)state;
    json_object_set_new(host, "MemorySwap", json_integer(-1));
    json_object_set_new(host, "PidsLimit", json_null());
    assert_int_equal(check(inspect, &spec, &facts, &err), 0);
    assert_false(facts.has_memory || facts.has_pids);
    assert_false(facts.layers & ISOLATION_LAYER_BIT(ISOLATION_LAYER_CGROUP));
    json_decref(inspect);
}

/* What Docker's statistics say of the group, whatever it says that it was asked for. */
static void test_limits_that_a_runtime_left_out(void **state)
{
    static const struct {
        const char *stats;
        bool holds;
    } rows[] = {
        {"{\"memory_stats\":{\"limit\":1048576},\"pids_stats\":{\"limit\":65}}", true},
        {"{\"memory_stats\":{\"limit\":1044480},\"pids_stats\":{\"limit\":65}}", true},
        {"{\"memory_stats\":{\"limit\":25276518400},\"pids_stats\":{\"limit\":65}}", false},
        {"{\"memory_stats\":{\"limit\":1048576},\"pids_stats\":{}}", false},
        {"{\"memory_stats\":{\"limit\":1048576},\"pids_stats\":{\"limit\":18446744073709551615.0}}",
         false},
        {"{\"memory_stats\":{\"limit\":-1},\"pids_stats\":{\"limit\":-1}}", false},
        {"{\"memory_stats\":7,\"pids_stats\":[]}", false},
        {"{}", false},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        json_t *stats = json_loads(rows[i].stats, 0, NULL);

        assert_non_null(stats);
        assert_int_equal(container_limits_hold(stats, 1048576, 65), rows[i].holds);
        json_decref(stats);
    }
    assert_false(container_limits_hold(NULL, 1048576, 65));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_asked_for),
        cmocka_unit_test(test_no_more_than_docker_has),
        cmocka_unit_test(test_all_was_done),
        cmocka_unit_test(test_what_was_not_done),
        cmocka_unit_test(test_other_mounts_and_users),
        cmocka_unit_test(test_whose_network),
        cmocka_unit_test(test_limits_that_nobody_holds),
        cmocka_unit_test(test_limits_that_a_runtime_left_out),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
