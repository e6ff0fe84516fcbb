/* test_notify.c - words that a service manager hears, and names that are none. */
#include "unit.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/str.h"
#include "sys/notify.h"

/* In no file system: nothing is left of it. */
static int open_ear(char name[64])
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    str_format(name, 64, "@bailey-test-notify-%d", (int)getpid());
    memcpy(address.sun_path + 1, name + 1, strlen(name) - 1);
    assert_int_equal(
        bind(fd, (struct sockaddr *)&address, (socklen_t)(sizeof(sa_family_t) + strlen(name))), 0);
    return fd;
}

static void says_what_it_is_told(void **state)
{
    char name[64], text[64];
    CLEANUP(fd_closep) int ear = open_ear(name);
    CLEANUP(notify_close) struct notify notify = NOTIFY_INIT;
    struct error err = {0};

    (void)state;
    assert_int_equal(notify_open(&notify, name, &err), 0);
    notify_say(&notify, "READY=1\nSTATUS=x");
    assert_int_equal(recv(ear, text, sizeof(text), 0), 16);
    assert_memory_equal(text, "READY=1\nSTATUS=x", 16);
}

static void a_socket_that_was_made_anew(void **state)
{
    char name[64], text[8];
    CLEANUP(fd_closep) int ear = open_ear(name);
    CLEANUP(notify_close) struct notify notify = NOTIFY_INIT;
    struct error err = {0};

    (void)state;
    assert_int_equal(notify_open(&notify, name, &err), 0);
    fd_closep(&ear);
    ear = open_ear(name);
    notify_say(&notify, "READY=1");
    assert_int_equal(recv(ear, text, sizeof(text), 0), 7);
}

/* Its folder is closed to whom we become: it was connected to before. */
static void a_name_that_is_gone(void **state)
{
    char path[] = "/tmp/bailey-test-notify-XXXXXX", text[8];
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    CLEANUP(fd_closep) int ear = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    CLEANUP(notify_close) struct notify notify = NOTIFY_INIT;
    struct error err = {0};

    (void)state;
    assert_non_null(mkdtemp(path));
    str_format(address.sun_path, sizeof(address.sun_path), "%s/s", path);
    assert_int_equal(bind(ear, (struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(notify_open(&notify, address.sun_path, &err), 0);
    assert_int_equal(unlink(address.sun_path), 0);
    assert_int_equal(rmdir(path), 0);
    notify_say(&notify, "READY=1");
    assert_int_equal(recv(ear, text, sizeof(text), 0), 7);
}

static void nobody_listens(void **state)
{
    char name[64], text[8];
    CLEANUP(fd_closep) int ear = open_ear(name);
    CLEANUP(notify_close) struct notify notify = NOTIFY_INIT;
    struct error err = {0};

    (void)state;
    notify_say(&notify, "READY=1"); /* never opened */
    assert_int_equal(notify_open(&notify, NULL, &err), 0);
    notify_say(&notify, "READY=1");
    assert_int_equal(notify_open(&notify, "", &err), 0);
    notify_say(&notify, "READY=1");
    assert_int_equal(recv(ear, text, sizeof(text), 0), -1);
    assert_int_equal(notify_open(&notify, name, &err), 0);
    fd_closep(&ear);
    ear = -1;
    notify_say(&notify, "READY=1"); /* gone meanwhile: no signal, no wait */
}

static void names_that_are_none(void **state)
{
    char text[256];
    struct notify notify;
    struct error err = {0};

    (void)state;
    memset(text, 'x', sizeof(text) - 1);
    text[0] = '/';
    text[sizeof(text) - 1] = 0;
    assert_int_equal(notify_open(&notify, text, &err), -EINVAL);
    assert_int_equal(notify_open(&notify, "relative", &err), -EINVAL);
    assert_int_equal(notify_open(&notify, "@", &err), -EINVAL);
    assert_int_equal(notify.fd, -1);
}

static void how_often_the_watchdog_is_fed(void **state)
{
    char own[24];

    (void)state;
    str_format(own, sizeof(own), "%d", (int)getpid());
    assert_int_equal(notify_watchdog_ms("30000000", NULL), 15000);
    assert_int_equal(notify_watchdog_ms("30000000", own), 15000);
    assert_int_equal(notify_watchdog_ms("1", own), 1);
    assert_int_equal(notify_watchdog_ms("30000000", "1"), 0);
    assert_int_equal(notify_watchdog_ms(NULL, NULL), 0);
    assert_int_equal(notify_watchdog_ms("0", NULL), 0);
    assert_int_equal(notify_watchdog_ms("soon", NULL), 0);
    assert_int_equal(notify_watchdog_ms("30000000", "me"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(says_what_it_is_told), cmocka_unit_test(a_socket_that_was_made_anew),
        cmocka_unit_test(a_name_that_is_gone),  cmocka_unit_test(nobody_listens),
        cmocka_unit_test(names_that_are_none),  cmocka_unit_test(how_often_the_watchdog_is_fed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
