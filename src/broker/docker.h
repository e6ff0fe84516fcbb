/*
 * docker.h - `bailey-engine docker`: the Docker provider host as a process
 * (runtime/docker/docker_host.h).
 *
 * Descriptors: 2 the log, DOCKER_RENDEZVOUS_FD, DOCKER_PROGRAM_FD. Settings come as the variables
 * of the configuration (DOCKER_*, SANDBOX_*), no file is read; besides, BAILEY_WALL_ENGINE is the
 * engine's id, BAILEY_WALL_STATE the state folder that it holds (not set: a run without one) and
 * BAILEY_WALL_IDENTITY that folder's identity;
 * with BAILEY_WALL_PROGRESS standard error is somebody's who wants to see how far a pull is.
 *
 * Runs in: broker
 */
#ifndef BAILEY_BROKER_DOCKER_H
#define BAILEY_BROKER_DOCKER_H

#define DOCKER_RENDEZVOUS_FD 3
#define DOCKER_PROGRAM_FD 4
#define DOCKER_STATUS_OUTDATED 3 /* HOST_STATUS_OUTDATED of supervisor/supervisor.h */

int docker_main(void); /* an exit status */

#endif
