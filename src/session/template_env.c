/*
 * template_env.c - what a session's template sets for its programs: environment, interpreter, tier.
 *
 * Read when the box is made or adopted, and kept: a rebuilt template applies to sessions created
 * later.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "recipe/recipe.h"
#include "session/session_private.h"

const char *template_env_program(const struct session_manager *manager, const struct config *config,
                                 const struct session_language *language, bool has_layer,
                                 const struct provider_row *row)
{
    const char *program = NULL;
    struct error ignored = {0};

    /* a run that falls back to this machine may find none: then it is not found */
    if (session_manager_interpreter(manager, config, row, language, &program, NULL, &ignored) < 0)
        program = language->program ? language->program : language->own;
    return has_layer ? recipe_program(language->name, program, has_layer) : program;
}

static json_t *template_env_json(const struct session_template *found_template)
{
    json_t *env = json_object();

    for (const char *const *at = found_template->env; env && at && *at; at++) {
        const char *equals = strchr(*at, '=');
        CLEANUP(freep) char *name = equals ? strndup(*at, (size_t)(equals - *at)) : NULL;

        if (name)
            json_object_set_new(env, name, json_string(equals + 1));
    }
    return env;
}

void session_take_template(struct session *session, const struct session_template *found_template)
{
    json_decref(session->given_env);
    session->given_env = template_env_json(found_template);
    session->tier = found_template->tier_count ? (int)found_template->tier_count - 1 : 0;
}

int session_apply_template(struct session *session, struct session_template *ret, struct error *err)
{
    int r = session_manager_template_of(session->manager, session_config(session),
                                        session->template_name, ret, err);

    if (r == 0)
        session_take_template(session, ret);
    return r;
}

const char *session_program(const struct session *session, const struct session_language *language)
{
    /* as its box was made */
    return template_env_program(session->manager, session_config(session), language,
                                session->layer[0], session->provider);
}

char **session_env(const struct session *session, json_t *over)
{
    CLEANUP(json_decrefp) json_t *all = json_object();

    if (!all || json_object_update(all, session->given_env) < 0)
        json_object_clear(all); /* a session without a template has no variables from one */
    if (!all || json_object_update(all, session->env) < 0)
        return NULL;
    return env_vector(all, over);
}
