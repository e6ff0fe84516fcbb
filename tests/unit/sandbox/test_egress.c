/* test_egress.c - an installer box's way out: a socket on its loopback that listens before a guest.
 */
#include "unit.h"

#include <arpa/inet.h>
#include <errno.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "namespaces.h"
#include "sandbox/stage.h"

#define PORT 3128
#define CANNOT 77

static int connect_to(uint16_t port)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons(port),
                                  .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    return connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0 ? -errno : fd;
}

/* In a network of its own: 0, CANNOT, or the number of what was wrong. */
static int try_egress(void)
{
    struct sandbox_plan plan = {.has_network = true};
    struct sandbox sandbox;
    int fd, accepted;
    char byte = 0;

    if (unshare(CLONE_NEWUSER | CLONE_NEWNET) < 0)
        return CANNOT;
    sandbox_init(&sandbox, &plan);
    if (stage_network_begin(&sandbox) < 0)
        return CANNOT;
    if (stage_egress(&sandbox) != 0 || sandbox.egress_fd != -1)
        return 1; /* an ordinary box has none */
    if (connect_to(PORT) != -ECONNREFUSED)
        return 2;
    plan.egress_port = PORT;
    if (stage_egress(&sandbox) != 0 || sandbox.egress_fd < 0)
        return 3;
    fd = connect_to(PORT);
    if (fd < 0)
        return 4;
    accepted = accept4(sandbox.egress_fd, NULL, NULL, SOCK_CLOEXEC);
    if (accepted < 0 || write(fd, "x", 1) != 1 || read(accepted, &byte, 1) != 1 || byte != 'x')
        return 5;
    /* Nobody waits: whoever has it does not block. */
    if (accept4(sandbox.egress_fd, NULL, NULL, SOCK_CLOEXEC) >= 0 || errno != EAGAIN)
        return 6;
    return 0;
}

static void test_listens_when_asked(void **state)
{
    pid_t pid = fork();
    int status;

    (void)state;
    if (pid == 0)
        _exit(try_egress());
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == CANNOT) {
        assert_false(has_namespaces()); /* prints the reason */
        skip();
    }
    assert_int_equal(WEXITSTATUS(status), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_listens_when_asked)};

    return cmocka_run_group_tests_name("sandbox/egress", tests, NULL, NULL);
}
