/* test_recipe.c - what a one-shot run consists of, the order of its steps, and the words for its
 * ends. */
#include "unit.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "recipe/recipe.h"
#include "runtime/provider.h"
#include "scratch.h"
#include "store/artifact.h"

static const struct config plain = {.type = "local"};
static const struct config checking = {.type = "local", .block_imports = true};

static void make(struct recipe *recipe, const struct recipe_spec *spec)
{
    struct error err = {0};

    if (recipe_make(recipe, spec, &err) < 0)
        fail_msg("%s", err.text);
}

static void assert_words(char **words, const char *const *expected)
{
    size_t i = 0;

    for (; expected[i]; i++) {
        assert_non_null(words[i]);
        assert_string_equal(words[i], expected[i]);
    }
    assert_null(words[i]);
}

#define WORDS(...) ((const char *const[]){__VA_ARGS__, NULL})

static void the_program_and_its_words(void **state)
{
    CLEANUP(recipe_free) struct recipe recipe = {0};
    struct exec_spec spec;

    (void)state;
    make(&recipe, &(struct recipe_spec){.config = &plain,
                                        .language = "python",
                                        .program = "/usr/bin/python3",
                                        .name = "main.py",
                                        .arguments = WORDS("a b", ""),
                                        .has_input = true,
                                        .timeout_ms = 7});
    assert_words(recipe.argv, WORDS("/usr/bin/python3", "main.py", "a b", ""));
    assert_string_equal(recipe.path, "/workspace/main.py");
    assert_string_equal(recipe_name(&recipe), "main.py");
    spec = recipe_exec(&recipe);
    assert_ptr_equal(spec.argv, recipe.argv);
    assert_ptr_equal(spec.env, recipe.env);
    assert_true(spec.stdin_open && spec.ends_box);
    assert_int_equal(spec.timeout_ms, 7);
}

static void a_name_like_an_option(void **state)
{
    CLEANUP(recipe_free) struct recipe recipe = {0};
    CLEANUP(recipe_free) struct recipe refused = {0};
    struct recipe_spec spec = {
        .config = &plain, .language = "bash", .program = "/bin/bash", .name = "-x.sh"};
    char name[300];
    struct error err = {0};

    (void)state;
    make(&recipe, &spec);
    assert_words(recipe.argv, WORDS("/bin/bash", "./-x.sh"));
    assert_string_equal(recipe.path, "/workspace/-x.sh");
    memset(name, 'n', 256);
    name[256] = '\0';
    spec.name = name;
    assert_int_equal(recipe_make(&refused, &spec, &err), -ENAMETOOLONG);
    assert_string_equal(err.text, "the file's name is too long");
}

static void a_command_as_it_is(void **state)
{
    CLEANUP(recipe_free) struct recipe recipe = {0};

    (void)state;
    make(&recipe, &(struct recipe_spec){.config = &checking, .arguments = WORDS("ls", "-l")});
    assert_words(recipe.argv, WORDS("ls", "-l"));
    assert_null(recipe.path);
    assert_null(recipe_name(&recipe));
    assert_int_equal(recipe_next(&recipe, RECIPE_FILES), RECIPE_PROGRAM);
}

static void the_callers_variables_win(void **state)
{
    CLEANUP(recipe_free) struct recipe recipe = {0};

    (void)state;
    make(&recipe, &(struct recipe_spec){.config = &plain,
                                        .arguments = WORDS("env"),
                                        .template_env = WORDS("A=1", "AB=2", "C=3"),
                                        .env = WORDS("Z=0", "A=own", "C=")});
    assert_words(recipe.env, WORDS("AB=2", "Z=0", "A=own", "C="));
    assert_words(recipe.env + recipe.env_given, WORDS("Z=0", "A=own", "C="));
}

static void a_template_has_its_own_python(void **state)
{
    (void)state;
    assert_string_equal(recipe_program("python", "p", true), "/bailey/template/bin/python");
    assert_string_equal(recipe_program("python", "p", false), "p");
    assert_string_equal(recipe_program("bash", "b", true), "b");
}

/* The steps of a run, as digits. */
static void assert_order(const struct config *config, const char *language, bool has_kernel,
                         bool has_output, const char *expected)
{
    CLEANUP(recipe_free) struct recipe recipe = {0};
    char steps[16] = "";
    enum recipe_step step;
    size_t count = 0;

    make(&recipe, &(struct recipe_spec){
                      .config = config, .language = language, .program = "p", .name = "main"});
    recipe.has_kernel = has_kernel;
    recipe.has_output = has_output;
    for (step = RECIPE_FILES; step != RECIPE_OVER; step = recipe_next(&recipe, step))
        steps[count++] = (char)('0' + step);
    assert_string_equal(steps, expected);
    assert_int_equal(recipe_next(&recipe, RECIPE_OVER), RECIPE_OVER);
}

static void the_order(void **state)
{
    (void)state;
    assert_order(&checking, "python", false, true, "01234");
    assert_order(&checking, "python", false, false, "0123");
    assert_order(&checking, "python", true, true, "0234");
    assert_order(&checking, "bash", false, true, "0134");
    assert_order(&plain, "python", false, true, "0134");
    assert_order(&plain, "python", true, false, "03");
}

static void another_provider(void **state)
{
    CLEANUP(recipe_free) struct recipe recipe = {0};
    CLEANUP(result_free) struct result result;

    (void)state;
    result_init(&result, &(struct limits){0});
    make(&recipe, &(struct recipe_spec){
                      .config = &plain, .language = "python", .program = "python3", .name = "m"});
    assert_int_equal(recipe_fall_back(&recipe, &result, "docker", "it is not there", "/bin/py"), 0);
    assert_words(recipe.argv, WORDS("/bin/py", "m"));
    assert_non_null(result.fallback_from);
    assert_int_equal(recipe_fall_back(&recipe, &result, "docker", "it is not there", NULL), 0);
    assert_words(recipe.argv, WORDS("/bin/py", "m"));
}

static void what_does_not_fit(void **state)
{
    struct error err = {0};

    (void)state;
    error_set(&err, -ENOSPC, ERROR_ENGINE, "No space left on device");
    assert_int_equal(recipe_not_put("/workspace/a", &err), -ENOSPC);
    assert_ptr_equal(err.code, ERROR_TOO_LARGE);
    assert_string_equal(
        err.text, "copying in '/workspace/a': the box's disk is full; give it more with --disk");
    error_set(&err, -EPIPE, ERROR_BOX_LOST, "the box is gone");
    err.provider = "docker";
    assert_int_equal(recipe_not_put("/workspace/a", &err), -EPIPE);
    assert_ptr_equal(err.code, ERROR_BOX_LOST);
    assert_string_equal(err.text, "copying in '/workspace/a': the box is gone");
    assert_string_equal(err.provider, "docker"); /* who was lost with it stays known */
    error_set(&err, -EISDIR, ERROR_ENGINE, "a folder");
    recipe_not_put("/workspace/a", &err);
    assert_ptr_equal(err.code, ERROR_BAD_INPUT);
}

static void say_no_program(const struct config *config, const char *program, const char *language,
                           struct error *err)
{
    (void)config;
    error_set(err, -ENOENT, ERROR_NO_INTERPRETER, "no %s for %s", program, language);
}

static void what_does_not_start(void **state)
{
    const struct provider_row image = {.name = "image", .no_program = say_no_program};
    const struct provider_row machine = {.name = "machine"};
    const uint32_t mounts = ISOLATION_LAYER_BIT(ISOLATION_LAYER_MOUNTNS);
    CLEANUP(recipe_free) struct recipe recipe = {0};
    CLEANUP(recipe_free) struct recipe command = {0};
    struct error err = {0};

    (void)state;
    make(&recipe, &(struct recipe_spec){
                      .config = &plain, .language = "python", .program = "py", .name = "m"});
    make(&command, &(struct recipe_spec){.config = &plain, .arguments = WORDS("ls")});
    error_set(&err, -ENOENT, ERROR_COMMAND_NOT_FOUND, "not found");
    assert_int_equal(recipe_not_started(&recipe, &machine, mounts, &err), -ENOENT);
    assert_string_equal(err.text, "py: not found");
    error_set(&err, -ENOENT, ERROR_COMMAND_NOT_FOUND, "not found");
    recipe_not_started(&recipe, &image, mounts, &err);
    assert_string_equal(err.text, "no py for Python");
    error_set(&err, -ENOENT, ERROR_COMMAND_NOT_FOUND, "not found");
    recipe_not_started(&command, &image, mounts, &err);
    assert_string_equal(err.text, "ls: not found");
    error_set(&err, -EACCES, ERROR_NOT_EXECUTABLE, "denied");
    recipe_not_started(&recipe, &machine, mounts, &err);
    assert_string_equal(err.text, "py: denied");
    error_set(&err, -EACCES, ERROR_NOT_EXECUTABLE, "denied");
    recipe_not_started(&recipe, &machine, 0, &err); /* no folder is to blame */
    assert_string_equal(err.text, "py: denied");
    error_set(&err, -EPIPE, ERROR_BOX_LOST, "the box is gone");
    recipe_not_started(&recipe, NULL, 0, &err);
    assert_string_equal(err.text, "the box is gone");
}

static void assert_closed(const char *language, const char *program, const char *folder,
                          const char *setting)
{
    const struct provider_row machine = {.name = "machine"};
    CLEANUP(recipe_free) struct recipe recipe = {0};
    struct error err = {0};

    make(&recipe, &(struct recipe_spec){
                      .config = &plain, .language = language, .program = program, .name = "m"});
    error_set(&err, -EACCES, ERROR_NOT_EXECUTABLE, "denied");
    assert_int_equal(recipe_not_started(&recipe, &machine, 0, &err), -EACCES);
    assert_ptr_equal(err.code, ERROR_NO_INTERPRETER);
    assert_non_null(strstr(err.text, program));
    assert_non_null(strstr(err.text, folder));
    assert_non_null(strstr(err.text, setting));
}

/* Without a mount namespace the guest gets to the interpreter through folders of the machine. */
static void an_interpreter_behind_a_closed_folder(void **state)
{
    struct scratch closed, open;

    (void)state;
    scratch_make(&closed); /* 0700 */
    scratch_make(&open);
    assert_int_equal(chmod(open.path, 0755), 0);
    scratch_write(&closed, "program", "");
    assert_int_equal(symlink(scratch_path(&closed, "program"), scratch_path(&open, "link")), 0);
    assert_closed("python", scratch_path(&closed, "program"), closed.path, "SANDBOX_PYTHON=");
    assert_closed("javascript", scratch_path(&closed, "program"), closed.path, "SANDBOX_NODE=");
    assert_closed("python", scratch_path(&open, "link"), closed.path, "SANDBOX_PYTHON=");
    scratch_remove(&open);
    scratch_remove(&closed);
}

/* What is not stored: a command, what was asked wrongly, and what SANDBOX_STORE_CODE excludes. */
static void what_is_not_stored(void **state)
{
    const struct config always = {.type = "local", .store_code = STORE_ALWAYS};
    CLEANUP(result_free) struct result result;
    struct artifact artifact = {.folder = "/dev/null/no folder", .code = "", .result = &result};
    struct error err = {0};
    char *path = NULL;

    (void)state;
    result_init(&result, &(struct limits){0});
    assert_int_equal(recipe_store(&always, &artifact, &path, &err), 0);
    artifact.language = "python";
    result.error.code = ERROR_TOO_LARGE;
    assert_int_equal(recipe_store(&always, &artifact, &path, &err), 0);
    result.error.code = NULL;
    assert_int_equal(
        recipe_store(&(struct config){.store_code = STORE_ON_ERROR}, &artifact, &path, &err), 0);
    assert_true(recipe_store(&always, &artifact, &path, &err) < 0); /* nothing excludes it */
    assert_null(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_program_and_its_words),
        cmocka_unit_test(a_name_like_an_option),
        cmocka_unit_test(a_command_as_it_is),
        cmocka_unit_test(the_callers_variables_win),
        cmocka_unit_test(a_template_has_its_own_python),
        cmocka_unit_test(the_order),
        cmocka_unit_test(another_provider),
        cmocka_unit_test(what_does_not_fit),
        cmocka_unit_test(what_does_not_start),
        cmocka_unit_test(an_interpreter_behind_a_closed_folder),
        cmocka_unit_test(what_is_not_stored),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
