/* agent.c - the loop of model and code; see agent.h. */
#include "agent/agent.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "base/reactor.h"
#include "base/str.h"
#include "model/caller.h"
#include "model/json.h"
#include "model/text.h"
#include "session/session.h"
#include "session/session_manager.h"
#include "upstream/link.h"

enum kind { KIND_UNKNOWN, KIND_CODE, KIND_FUNCTION };

struct agent {
    struct agent_spec spec;
    struct caller caller;
    const struct agent_events *events;
    void *ctx;

    struct upstream_call *call; /* the model server's answer that is under way */
    struct turn turn;
    unsigned turns;
    size_t told;    /* bytes of the turn's text that were told */
    size_t current; /* index of the call that is told or run */
    bool is_open;   /* its beginning was told */
    size_t shown;   /* bytes of it that were told */
    bool turn_is_over;
    bool has_function; /* a function of the caller's was called */
    json_t *results;   /* messages of this turn's calls */

    struct code_run *run;
    json_t *code; /* source of the call that runs */
    bool is_starting, has_run_early;
    json_int_t calls;      /* of the code interpreter, in all */
    char prepared[ID_MAX]; /* a session whose box is being made meanwhile; empty: none */

    struct token_usage usage;
    bool has_begun, is_over;
    struct reactor_timer *timer; /* of spec.is_large; NULL: none */
    bool is_gone;                /* agent_end() was called in a callback */
    unsigned inside;             /* callbacks that are under way */
};

static void agent_free(struct agent *agent);

static void enter(struct agent *agent)
{
    agent->inside++;
}

static void leave(struct agent *agent)
{
    if (--agent->inside == 0 && agent->is_gone)
        agent_free(agent);
}

/* ---- the end ---- */

static void finish(struct agent *agent, enum agent_reason reason, unsigned status,
                   const struct error *err)
{
    struct agent_ending ending = {
        .reason = reason, .status = status, .has_begun = agent->has_begun, .usage = agent->usage};

    if (agent->is_over)
        return;
    if (err)
        ending.error = *err;
    agent->is_over = true;
    upstream_call_end(ptr_take(&agent->call));
    enter(agent);
    agent->events->ended(agent->ctx, &ending);
    leave(agent);
}

static void finish_memory(struct agent *agent)
{
    struct error err = {0};

    error_memory(&err);
    finish(agent, AGENT_FAILED, 0, &err);
}

/* ---- requests to the model server ---- */

/* What the model is offered; its words are chosen for models that know such a tool as `python`. */
static json_t *code_tool(void)
{
    return json_pack(
        "{s:s, s:{s:s, s:s, s:{s:s, s:{s:{s:s, s:s}, s:{s:s, s:{s:s}, s:s}}, s:[s]}}}", "type",
        "function", "function", "name", AGENT_TOOL, "description",
        "Runs Python code in a sandbox and returns what it prints, the value of the last "
        "expression, and errors. Variables and files stay from call to call. There is no network. "
        "Input files are in /mnt/data; save files for the user there. Figures of matplotlib are "
        "shown to the user.",
        "parameters", "type", "object", "properties", "code", "type", "string", "description",
        "Python source to run", "requirements", "type", "array", "items", "type", "string",
        "description", "packages to install before, as for pip; only if an import failed",
        "required", "code");
}

static bool is_choice(const struct agent *agent, const char *word)
{
    return str_equal(json_string_value(agent->spec.choice), word);
}

static bool offers_code(const struct agent *agent)
{
    return agent->spec.has_code &&
           (agent->spec.max_calls == 0 || agent->calls < agent->spec.max_calls);
}

static int add_tools(struct agent *agent, json_t *body)
{
    json_t *tools = json_array();
    json_t *choice = agent->spec.choice;
    int r = tools ? 0 : -1;

    if (r == 0 && offers_code(agent))
        r = json_array_append_new(tools, code_tool());
    if (r == 0 && agent->spec.functions)
        r = json_array_extend(tools, agent->spec.functions);
    if (r == 0 && json_array_size(tools) > 0) {
        r = json_object_set(body, "tools", tools);
        /* A choice that forces a call would force it for ever: only the first turn has it. */
        if (r == 0 && choice && (agent->turns == 0 || is_choice(agent, "none")))
            r = json_object_set(body, "tool_choice", choice);
    } else if (r == 0) {
        json_object_del(body, "parallel_tool_calls");
    }
    json_decref(tools);
    return r;
}

static json_t *make_body(struct agent *agent)
{
    json_t *body = json_object();
    int r = body ? 0 : -1;

    if (r == 0 && agent->spec.options)
        r = json_object_update(body, agent->spec.options);
    if (r == 0)
        r = json_object_set(body, "messages", agent->spec.messages);
    if (r == 0)
        r = json_object_set_new(body, "stream", json_true());
    if (r == 0)
        r = json_object_set_new(body, "stream_options", json_pack("{s:b}", "include_usage", 1));
    if (r == 0 && agent->spec.max_tokens > 0)
        r = json_object_set_new(body, "max_tokens",
                                json_integer(agent->spec.max_tokens - agent->usage.output));
    if (r == 0)
        r = add_tools(agent, body);
    if (r == 0)
        return body;
    json_decref(body);
    return NULL;
}

static void on_begun(void *ctx);
static void on_event(void *ctx, const char *data, size_t length);
static void on_done(void *ctx, bool is_marked);
static void on_failed(void *ctx, unsigned status, const char *text);
static void step(struct agent *agent);

static void start_turn(struct agent *agent)
{
    static const struct upstream_call_events events = {
        .begun = on_begun, .event = on_event, .done = on_done, .failed = on_failed};
    CLEANUP(buf_free) struct buf text = BUF_INIT(LIMIT_AGENT_HISTORY);
    json_t *body = make_body(agent);
    struct error err = {0};
    int r = body ? text_of_json(body, JSON_COMPACT, &text) : -ENOMEM;

    json_decref(body);
    turn_free(&agent->turn);
    agent->told = agent->current = agent->shown = 0;
    agent->is_open = agent->turn_is_over = agent->has_function = false;
    json_decref(agent->results);
    agent->results = json_array();
    agent->turns++;
    if (r == -EFBIG) {
        error_set(&err, r, ERROR_TOO_LARGE,
                  "the conversation is larger than %llu MB; begin a new one",
                  LIMIT_AGENT_HISTORY / MIB);
        finish(agent, AGENT_FAILED, 0, &err);
        return;
    }
    if (r == 0 && agent->results)
        r = upstream_call_start(agent->spec.link, &text, &events, agent, &agent->call);
    if (r < 0 || !agent->results)
        finish_memory(agent);
}

/* ---- calls ---- */

static bool has_function(const struct agent *agent, const char *name)
{
    json_t *tool;
    size_t i;

    json_array_foreach(agent->spec.functions, i, tool)
    {
        json_t *function = json_object_get(tool, "function");

        if (str_equal(json_string_value(json_object_get(function, "name")), name))
            return true;
    }
    return false;
}

/*
 * Models that were trained on hosted tools say "python". Some model servers do not know
 * tool_choice: after "none" a call is refused here.
 */
static enum kind kind_of(const struct agent *agent, const struct turn_call *call)
{
    if (is_choice(agent, "none"))
        return KIND_UNKNOWN;
    if (has_function(agent, call->name))
        return KIND_FUNCTION;
    if (offers_code(agent) &&
        (str_equal(call->name, AGENT_TOOL) || str_equal(call->name, "python")))
        return KIND_CODE;
    return KIND_UNKNOWN;
}

static struct agent_call view(const struct agent *agent, const struct turn_call *call,
                              enum kind kind)
{
    return (struct agent_call){.is_code = kind == KIND_CODE,
                               .id = call->id,
                               .name = call->name,
                               .container = agent->spec.place.container};
}

static void on_prepared(void *ctx, struct box *box, const struct error *err)
{
    struct agent *agent = ctx;

    (void)box;
    (void)err; /* the call that needs the box sees it too */
    agent->prepared[0] = '\0';
}

/* The box is made while the source still arrives. */
static void prepare_place(struct agent *agent)
{
    struct session *session;
    struct error err = {0};

    if (agent_place_open(&agent->spec.place, agent->spec.manager, &agent->caller, &err) < 0) {
        if (!agent->spec.place.container[0])
            id_make(agent->spec.place.container, "cntr");
        return; /* again when the code is run: the model reads why not */
    }
    if (agent->prepared[0] ||
        session_manager_find_of(agent->spec.manager, agent->caller.who.tenant,
                                agent->spec.place.session, false, &session, &err) < 0)
        return;
    str_copy(agent->prepared, sizeof(agent->prepared), agent->spec.place.session);
    session_box(session, on_prepared, agent);
}

static void open_call(struct agent *agent, const struct turn_call *call, enum kind kind)
{
    struct agent_call told;

    if (agent->is_open)
        return;
    if (kind == KIND_CODE)
        prepare_place(agent);
    agent->is_open = true;
    agent->shown = 0;
    told = view(agent, call, kind);
    agent->events->call_began(agent->ctx, &told);
}

static void show_call(struct agent *agent, const struct turn_call *call, enum kind kind)
{
    const struct buf *text = kind == KIND_CODE ? &call->code : &call->arguments;
    struct agent_call told = view(agent, call, kind);
    size_t from = agent->shown;

    agent->shown = text->length;
    if (text->length > from)
        agent->events->call_text(agent->ctx, &told, text->data + from, text->length - from);
}

static void close_function(struct agent *agent, const struct turn_call *call)
{
    struct agent_call told = view(agent, call, KIND_FUNCTION);

    told.text = buf_text(&call->arguments);
    told.length = call->arguments.length;
    agent->events->call_ready(agent->ctx, &told);
    agent->has_function = true;
    agent->is_open = false;
    agent->current++;
}

static void show_text(struct agent *agent)
{
    size_t from = agent->told;

    agent->told = agent->turn.text.length;
    if (agent->told > from)
        agent->events->text(agent->ctx, agent->turn.text.data + from, agent->told - from);
}

/*
 * Tells what the last event brought, as far as the order allows: text before calls, a call of the
 * code interpreter before those behind it.
 */
static void show(struct agent *agent)
{
    if (agent->turn.count == 0)
        show_text(agent);
    while (agent->current < agent->turn.count && !agent->is_gone) {
        struct turn_call *call = &agent->turn.calls[agent->current];
        enum kind kind = kind_of(agent, call);

        if (!call->name[0] || kind == KIND_UNKNOWN)
            return; /* what it is becomes clear at the end of the turn */
        if (agent->current == 0 && !agent->is_open)
            show_text(agent);
        open_call(agent, call, kind);
        if (!agent->is_gone)
            show_call(agent, call, kind);
        if (kind == KIND_CODE || agent->current + 1 == agent->turn.count || agent->is_gone)
            return;
        close_function(agent, call);
    }
}

/* ---- running code ---- */

static void add_result(struct agent *agent, const struct turn_call *call, const char *text,
                       size_t length)
{
    json_t *content = text_to_json(text, length);

    if (!content || json_array_append_new(
                        agent->results, json_pack("{s:s, s:s, s:o}", "role", "tool", "tool_call_id",
                                                  call->id, "content", content)) < 0)
        finish_memory(agent);
}

static void call_over(struct agent *agent, const struct code_outcome *outcome)
{
    struct turn_call *call = &agent->turn.calls[agent->current];
    struct agent_call told = view(agent, call, KIND_CODE);

    told.text = json_string_value(agent->code);
    told.length = json_string_length(agent->code);
    add_result(agent, call, buf_text(&outcome->told), outcome->told.length);
    agent->events->ran(agent->ctx, &told, outcome);
    if (agent->spec.place.is_fresh)
        agent_place_leave(&agent->spec.place, agent->spec.manager, &agent->caller);
    agent->is_open = false;
    agent->current++;
}

static void call_failed(struct agent *agent, const char *text)
{
    struct code_outcome outcome = {
        .is_failed = true, .logs = BUF_INIT(KIB), .told = BUF_INIT(16 * KIB)};

    buf_append_text(&outcome.told, text);
    call_over(agent, &outcome);
    buf_free(&outcome.told);
}

static void on_ran(void *ctx, const struct code_outcome *outcome)
{
    struct agent *agent = ctx;

    enter(agent);
    if (!agent->is_over)
        call_over(agent, outcome);
    if (agent->is_starting) {
        agent->has_run_early = true;
    } else {
        code_run_end(ptr_take(&agent->run));
        step(agent);
    }
    leave(agent);
}

/* What is wrong with the arguments, for the model; NULL: nothing. */
static const char *check_arguments(json_t *arguments, json_t **ret_code, json_t **ret_packages)
{
    json_t *code = json_object_get(arguments, "code");
    json_t *packages = json_object_get(arguments, "requirements"), *one;
    size_t i;

    if (!json_is_object(arguments))
        return "The arguments are not a JSON object. Call the tool again with {\"code\": "
               "\"...\"}, with the source as a JSON string: newlines as \\n, quotes as \\\".";
    if (!json_is_string(code))
        return "The argument 'code' is missing or no string. Call the tool again with {\"code\": "
               "\"...\"}.";
    if (json_string_value(code)[strspn(json_string_value(code), " \t\r\n")] == '\0')
        return "The argument 'code' is empty: there is nothing to run.";
    if (json_string_length(code) > LIMIT_CODE_BYTES)
        return "The source is too large: at most 5 MB.";
    if (json_is_null(packages))
        packages = NULL;
    if (packages && !json_is_array(packages))
        return "The argument 'requirements' has to be an array of strings.";
    json_array_foreach(packages, i, one)
    {
        if (!json_is_string(one))
            return "The argument 'requirements' has to be an array of strings.";
    }
    *ret_code = code;
    *ret_packages = packages;
    return NULL;
}

static void start_code(struct agent *agent, json_t *packages)
{
    struct code_run_spec spec = {.manager = agent->spec.manager,
                                 .reactor = agent->spec.reactor,
                                 .caller = &agent->caller,
                                 .place = &agent->spec.place,
                                 .keeper = agent->code,
                                 .requirements = packages};
    struct error err = {0};
    char text[ERROR_TEXT_MAX + 128];
    int r = agent_place_open(&agent->spec.place, agent->spec.manager, &agent->caller, &err);

    agent->has_run_early = false;
    agent->is_starting = true;
    if (r == 0)
        r = code_run_start(&spec, on_ran, agent, &agent->run, &err);
    agent->is_starting = false;
    if (r < 0) {
        str_format(text, sizeof(text),
                   "No sandbox could be had, so the code was not run. Try again, or answer "
                   "without running code: %s",
                   err.text);
        call_failed(agent, text);
    } else if (agent->has_run_early) {
        code_run_end(ptr_take(&agent->run));
    }
}

/* The call is complete: its source is told, and it runs, or it cannot. */
static void run_code(struct agent *agent, struct turn_call *call)
{
    json_t *arguments = json_parse(buf_text(&call->arguments), call->arguments.length, 0, NULL);
    json_t *code = NULL, *packages = NULL;
    const char *wrong = check_arguments(arguments, &code, &packages);
    struct agent_call told = view(agent, call, KIND_CODE);
    json_t *before = agent->code;

    agent->calls++;
    agent->code =
        code ? json_incref(code) : json_stringn_nocheck(buf_text(&call->code), call->code.length);
    json_decref(before);
    told.text = json_string_value(agent->code);
    told.length = json_string_length(agent->code);
    agent->events->call_ready(agent->ctx, &told);
    if (!agent->is_gone && !wrong)
        agent->events->running(agent->ctx, &told);
    if (!agent->is_gone && wrong)
        call_failed(agent, wrong);
    else if (!agent->is_gone)
        start_code(agent, packages);
    json_decref(arguments);
}

static void refuse_call(struct agent *agent, struct turn_call *call)
{
    bool is_code = str_equal(call->name, AGENT_TOOL) || str_equal(call->name, "python");
    char text[600];

    if (is_choice(agent, "none"))
        str_format(text, sizeof(text),
                   "Not executed: no tool may be called (tool_choice is none). Answer without.");
    else if (is_code && agent->spec.has_code)
        str_format(text, sizeof(text),
                   "Not executed: max_tool_calls (%lld) is reached. Answer with what you have.",
                   (long long)agent->spec.max_calls);
    else
        str_format(text, sizeof(text), "There is no tool '%s'. Use the tools that are offered.",
                   call->name);
    add_result(agent, call, text, strlen(text));
    agent->current++;
}

/* ---- from one turn to the next ---- */

/* Servers parse the arguments of the history: what is no JSON is packed into some. */
static json_t *history_arguments(const struct turn_call *call)
{
    json_t *parsed = json_parse(buf_text(&call->arguments), call->arguments.length, 0, NULL);
    bool is_object = json_is_object(parsed);
    json_t *packed, *result;
    char *text;

    json_decref(parsed);
    if (is_object)
        return json_stringn_nocheck(buf_text(&call->arguments), call->arguments.length);
    packed = json_pack("{s:s%}", "invalid_arguments", buf_text(&call->arguments),
                       call->arguments.length);
    text = packed ? json_dumps(packed, JSON_COMPACT) : NULL;
    result = text ? json_string(text) : NULL;
    free(text);
    json_decref(packed);
    return result;
}

static int add_history(struct agent *agent)
{
    const struct turn *turn = &agent->turn;
    json_t *calls = json_array();
    json_t *message;
    int r = 0;

    for (size_t i = 0; i < turn->count && r == 0; i++)
        r = json_array_append_new(
            calls, json_pack("{s:s, s:s, s:{s:s, s:o}}", "id", turn->calls[i].id, "type",
                             "function", "function", "name", turn->calls[i].name, "arguments",
                             history_arguments(&turn->calls[i])));
    message = json_pack("{s:s, s:o, s:o}", "role", "assistant", "content",
                        turn->text.length > 0
                            ? json_stringn_nocheck(buf_text(&turn->text), turn->text.length)
                            : json_null(),
                        "tool_calls", calls);
    if (r == 0)
        r = message ? json_array_append(agent->spec.messages, message) : -1;
    json_decref(message);
    if (r == 0)
        r = json_array_extend(agent->spec.messages, agent->results);
    return r;
}

/* All calls of the turn are done. */
static void next_turn(struct agent *agent)
{
    show_text(agent); /* what came behind a call */
    if (agent->is_gone)
        return;
    if (agent->turn.count == 0 || agent->has_function) {
        finish(agent,
               agent->turn.finish == TURN_LENGTH     ? AGENT_TOKENS
               : agent->turn.finish == TURN_FILTERED ? AGENT_FILTERED
                                                     : AGENT_COMPLETED,
               0, NULL);
        return;
    }
    if (add_history(agent) < 0)
        finish_memory(agent);
    else if (agent->spec.max_tokens > 0 && agent->usage.output >= agent->spec.max_tokens)
        finish(agent, AGENT_TOKENS, 0, NULL);
    else if (agent->turns >= LIMIT_AGENT_TURNS)
        finish(agent, AGENT_TURNS, 0, NULL);
    else
        start_turn(agent);
}

/* A call that the limit of tokens cut off is not run: half a program is another one. */
static bool is_cut(const struct agent *agent)
{
    return agent->turn.finish == TURN_LENGTH && agent->current + 1 == agent->turn.count;
}

/* The turn has ended: the calls of it, one after the other, as far as nothing has to be awaited. */
static void step(struct agent *agent)
{
    while (!agent->is_over && !agent->is_gone && !agent->run && agent->turn_is_over) {
        struct turn_call *call;
        enum kind kind;

        if (agent->current == agent->turn.count) {
            agent->turn_is_over = false;
            next_turn(agent);
            return;
        }
        call = &agent->turn.calls[agent->current];
        kind = kind_of(agent, call);
        if (agent->current == 0 && !agent->is_open)
            show_text(agent);
        if (!agent->is_gone && kind != KIND_UNKNOWN)
            open_call(agent, call, kind);
        if (!agent->is_gone && kind != KIND_UNKNOWN)
            show_call(agent, call, kind);
        if (agent->is_gone)
            return;
        if (kind == KIND_CODE && is_cut(agent)) {
            finish(agent, AGENT_TOKENS, 0, NULL);
            return;
        }
        if (kind == KIND_CODE)
            run_code(agent, call);
        else if (kind == KIND_FUNCTION)
            close_function(agent, call);
        else
            refuse_call(agent, call);
    }
}

/* ---- the model server's answer ---- */

static void on_begun(void *ctx)
{
    struct agent *agent = ctx;

    if (agent->has_begun)
        return;
    agent->has_begun = true;
    enter(agent);
    agent->events->begun(agent->ctx);
    leave(agent);
}

static void on_event(void *ctx, const char *data, size_t length)
{
    struct agent *agent = ctx;
    struct error err = {0};

    if (agent->is_over)
        return;
    enter(agent);
    if (turn_event(&agent->turn, data, length, &err) < 0)
        finish(agent, AGENT_FAILED, 0, &err);
    else
        show(agent);
    leave(agent);
}

static void on_done(void *ctx, bool is_marked)
{
    struct agent *agent = ctx;
    struct error err = {0};

    if (agent->is_over)
        return;
    enter(agent);
    upstream_call_end(ptr_take(&agent->call));
    agent->usage.input += agent->turn.usage.input;
    agent->usage.cached += agent->turn.usage.cached;
    agent->usage.written += agent->turn.usage.written;
    agent->usage.output += agent->turn.usage.output;
    agent->usage.reasoning += agent->turn.usage.reasoning;
    if (!is_marked && agent->turn.finish == TURN_OPEN) {
        error_set(&err, -ECONNRESET, ERROR_ENGINE, "the answer of the model server broke off");
        finish(agent, AGENT_FAILED, 0, &err);
    } else if (!agent->turn.has_choice) {
        error_set(&err, -EPROTO, ERROR_ENGINE,
                  "the answer of the model server has no choices: is it a server of Chat "
                  "Completions?");
        finish(agent, AGENT_FAILED, 0, &err);
    } else {
        agent->turn_is_over = true;
        step(agent);
    }
    leave(agent);
}

static void on_failed(void *ctx, unsigned status, const char *text)
{
    struct agent *agent = ctx;
    struct error err = {0};

    error_set(&err, -EREMOTEIO, ERROR_ENGINE, "%.*s", ERROR_TEXT_MAX - 1, text);
    finish(agent, AGENT_FAILED, status, &err);
}

/* ---- life ---- */

static void agent_free(struct agent *agent)
{
    struct session *session;
    struct error ignored = {0};

    upstream_call_end(agent->call);
    code_run_end(agent->run);
    if (agent->timer)
        agent->spec.reactor->ops->timer_remove(agent->timer);
    if (agent->prepared[0] &&
        session_manager_find_of(agent->spec.manager, agent->caller.who.tenant, agent->prepared,
                                true, &session, &ignored) == 0)
        session_box_cancel(session, agent);
    agent_place_leave(&agent->spec.place, agent->spec.manager, &agent->caller);
    turn_free(&agent->turn);
    json_decref(agent->results);
    json_decref(agent->code);
    json_decref(agent->spec.messages);
    json_decref(agent->spec.functions);
    json_decref(agent->spec.choice);
    json_decref(agent->spec.options);
    json_decref(agent->spec.place.file_ids);
    free(agent);
}

static void on_time(void *ctx)
{
    struct agent *agent = ctx;

    enter(agent);
    start_turn(agent);
    leave(agent);
}

int agent_start(const struct agent_spec *spec, const struct agent_events *events, void *ctx,
                struct agent **ret, struct error *err)
{
    struct agent *agent = calloc(1, sizeof(*agent));

    if (!agent) {
        json_decref(spec->messages);
        json_decref(spec->functions);
        json_decref(spec->choice);
        json_decref(spec->options);
        return error_memory(err);
    }
    *agent = (struct agent){
        .spec = *spec, .caller = *spec->caller, .events = events, .ctx = ctx, .inside = 1};
    json_incref(agent->spec.place.file_ids);
    turn_init(&agent->turn);
    *ret = agent;
    if (spec->is_large)
        agent->timer = reactor_timer(spec->reactor, on_time, agent);
    if (agent->timer)
        spec->reactor->ops->timer_set(agent->timer, 0);
    else
        start_turn(agent);
    leave(agent);
    return 0;
}

void agent_pause(struct agent *agent, bool is_paused)
{
    upstream_call_pause(agent->call, is_paused);
}

void agent_end(struct agent *agent)
{
    if (!agent)
        return;
    agent->is_gone = agent->is_over = true;
    upstream_call_end(ptr_take(&agent->call));
    if (agent->inside == 0)
        agent_free(agent);
}
