/*
 * main.c - bailey-engine: the broker or the egress proxy when the daemon starts it, else the
 * commands that speak to one. `bailey` executes it with the arguments it was given.
 */
#include "cli/client/main.h"
#include "base/str.h"
#include "broker/broker.h"
#include "egress/egress.h"

int main(int argc, char **argv)
{
    if (argc == 2 && str_equal(argv[1], "broker"))
        return broker_main();
    if (argc == 2 && str_equal(argv[1], "egress"))
        return egress_main();
    return client_main(argc, argv);
}
