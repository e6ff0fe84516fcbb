/*
 * main.c - bailey-engine: the broker, the egress proxy or a provider host when the daemon
 * starts it, otherwise the commands that talk to a daemon. `bailey` executes it with its own
 * arguments.
 */
#include "cli/client/main.h"

#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"
#include "broker/broker.h"
#include "broker/host.h"
#include "egress/egress.h"
#include "launcher/launcher.h"

int main(int argc, char **argv)
{
    if (argc == 2 && str_equal(argv[1], "broker"))
        return broker_main();
    if (argc == 3 && str_equal(argv[1], "host") && str_equal(argv[2], HOST_UPSTREAM))
        return upstream_process_main();
    if (argc == 3 && str_equal(argv[1], "host"))
        return host_main(argv[2]);
    if (argc == 2 && str_equal(argv[1], "egress"))
        return egress_main();
    if (argc == 2 && str_equal(argv[1], "probe")) /* its libraries were found, or it is not here */
        return fd_write_all(STDOUT_FILENO, LAUNCHER_PROBE_ANSWER, strlen(LAUNCHER_PROBE_ANSWER)) <
               0;
    return client_main(argc, argv);
}
