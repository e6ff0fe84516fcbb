/*
 * row_help.h - what the members of bodies mean and which events replies have, for the rows of
 * routes.c and with them for the OpenAPI document and the page at /docs.
 *
 * Runs in: broker
 */
#ifndef BAILEY_API_REST_ROW_HELP_H
#define BAILEY_API_REST_ROW_HELP_H

#include "api/front/door.h"

extern const struct door_field rest_reload_fields[];
extern const struct door_field rest_run_fields[];
extern const struct door_field rest_session_fields[];
extern const struct door_field rest_extend_fields[];
extern const struct door_field rest_command_fields[];
extern const struct door_field rest_cell_fields[];
extern const struct door_field rest_codebox_fields[];
extern const struct door_field rest_signal_fields[];
extern const struct door_field rest_resize_fields[];
extern const struct door_field rest_context_fields[];
extern const struct door_field rest_packages_fields[];
extern const struct door_field rest_mkdir_fields[];
extern const struct door_field rest_move_fields[];
extern const struct door_field rest_chmod_fields[];
extern const struct door_field rest_link_fields[];
extern const struct door_field rest_port_link_fields[];
extern const struct door_field rest_keep_fields[];
extern const struct door_field rest_template_fields[];
extern const struct door_field rest_key_fields[];
extern const struct door_field rest_rotate_fields[];

extern const struct door_event rest_run_events[];
extern const struct door_event rest_command_events[];
extern const struct door_event rest_execution_events[];
extern const struct door_event rest_install_events[];
extern const struct door_event rest_build_events[];
extern const struct door_event rest_watch_events[];
extern const struct door_event rest_bus_events[];

#endif
