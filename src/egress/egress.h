/*
 * egress.h - the egress proxy: the only way from a box to the network.
 *
 * Theory of operation. `bailey-engine egress` is a process of its own in the host's network, with
 * no privilege. It gets listening sockets from the launcher (protocol.h), each made inside a box,
 * on the box's loopback; accepting on one and connecting on the host's side is all there is of a
 * network. A client says where it wants to go as to any proxy: CONNECT, a request with a whole URL,
 * or SOCKS with a name. The name is read by one parser (host.h), looked up in the box's list
 * (policy.h), and only then resolved; every address that it stands for is judged, and the ones that
 * were judged are the ones that are connected to. TLS passes through untouched, but its first words
 * must name the host that was asked for (hello.h). What is not listed is answered with what to do
 * about it; no packet leaves for it, and every verdict is logged and told.
 *
 * One thread and libuv's pool for getaddrinfo(3). Ends when the launcher's socket does.
 *
 * Runs in: egress
 */
#ifndef BAILEY_EGRESS_EGRESS_H
#define BAILEY_EGRESS_EGRESS_H

#include "base/error.h"

/* Descriptors as protocol.h says. Returns the exit status. */
int egress_main(void);

/*
 * confine.c. Names can still be resolved and hosts connected to. The first before any library is
 * used: no new privileges, and seccomp filters. The second when everything is open: Landlock.
 */
int egress_confine_calls(struct error *err);
int egress_confine_files(struct error *err);

#endif
