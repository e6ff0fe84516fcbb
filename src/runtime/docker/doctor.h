/*
 * doctor.h - the report of `bailey doctor` on Docker: whether it answers, its features, its image.
 * Blocks.
 *
 * Runs in: commands
 */
#ifndef BAILEY_RUNTIME_DOCKER_DOCTOR_H
#define BAILEY_RUNTIME_DOCKER_DOCTOR_H

#include <jansson.h>

struct config;

json_t *docker_doctor(const struct config *config); /* new reference; NULL: no memory */

#endif
