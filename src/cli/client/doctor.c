/*
 * doctor.c - the part of `bailey doctor` that asks provider hosts: bailey-engine prints its
 * findings as JSON, {NAME of a row: its report}, and `bailey` shows it (cli/doctor_provider.c,
 * which defines a report).
 */
#include <jansson.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "cli/client/commands.h"
#include "cli/message.h"
#include "cli/request.h"
#include "runtime/host/backend.h"
#include "runtime/provider.h"

int doctor_providers_run(const struct invocation *invocation)
{
    CLEANUP(config_free) struct config config = {0};
    struct report_request request = {0};
    const struct provider_row *row;
    struct error err = {0};
    json_t *reports;

    if (options_take(&invocation->parsed, &request, &err) < 0 ||
        request_config(&config, request.config_file, invocation->env, &err) < 0 ||
        config_check_values(&config, &err) < 0)
        return message_bad_input(&err);
    reports = json_object();
    for (size_t i = 0; reports && (row = provider_at(i)); i++) {
        const struct backend_row *backend = backend_find(row->name);

        if (backend && backend->doctor &&
            (row == config_provider(&config) || (row->is_meant && row->is_meant(&config))))
            json_object_set_new(reports, row->name, backend->doctor(&config));
    }
    return print_json(reports);
}
