/*
 * host.h - `bailey-engine host NAME`: the provider host of a row as a process
 * (runtime/host/host.h).
 *
 * Descriptors: 2 the log, HOST_RENDEZVOUS_FD, HOST_WARDEN_FD of launcher/launcher.h. Settings come
 * as the variables of the configuration, no file is read; besides, those of runtime/host/hosted.h.
 * Ends when the rendezvous socket has ended and its boxes are removed. The status is 0 then, or
 * HOST_STATUS_OUTDATED.
 *
 * Runs in: broker
 */
#ifndef BAILEY_BROKER_HOST_H
#define BAILEY_BROKER_HOST_H

int host_main(const char *name);
/* `bailey-engine host upstream`, with the variables of upstream/upstream.h. */
int upstream_process_main(void);

#endif
