/*
 * gen-profile.c - prints sandbox/filter_table.h as a seccomp profile for Docker: what a container
 * that has our warden in it may call.
 *
 *   gen-profile        the profile, as JSON (deploy/seccomp.json)
 *   gen-profile --c    the same as C: docker_seccomp_profile() of runtime/docker/profile.h
 *
 * Theory of operation. The container's filter lies below the warden's own, and that below the
 * guest's; the strictest answer wins, and of two errors the innermost filter's. So the profile is
 * the warden's column of the table: it allows all that the other columns allow, and which error it
 * gives for the rest is seen only before the warden has put on its own. Calls without a row are
 * ENOSYS, by default; where a runtime is too old for a default errno they are EPERM.
 *
 * A profile can only say "allowed when these arguments are so": the conditions of one entry all
 * have to hold, at most one for each argument (runc takes two on one argument for alternatives),
 * and entries for one call are alternatives. So a rule of the table that applies to some values
 * becomes the set of all the others, in masked comparisons: what differs from all of the values in
 * the first bit, then in the second, ... - a complement in a binary tree.
 */
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sandbox/filter_table.h"

#define ROWS (sizeof(filter_table) / sizeof(filter_table[0]))
#define ARGUMENTS 6
#define CHOICES_MAX 128
#define LINE_MAX_BYTES 96
#define TEXT_MAX (512 * 1024)

/* One comparison: (argument & mask) == value. */
struct choice {
    uint64_t mask, value;
};

/* The values of one argument that are allowed: any of these; none at all: every value. */
struct choices {
    struct choice of[CHOICES_MAX];
    unsigned count;
};

static char text[TEXT_MAX];
static size_t text_length;

static void die(const char *what, const char *name)
{
    fprintf(stderr, "gen-profile: %s: %s\n", name, what);
    exit(1);
}

__attribute__((format(printf, 1, 2))) static void say(const char *format, ...)
{
    va_list arguments;
    int length;

    va_start(arguments, format);
    length = vsnprintf(text + text_length, TEXT_MAX - text_length, format, arguments);
    va_end(arguments);
    if (length < 0 || (size_t)length >= TEXT_MAX - text_length)
        die("too long", "profile");
    text_length += (size_t)length;
}

static void add_choice(struct choices *choices, uint64_t mask, uint64_t value)
{
    if (choices->count == CHOICES_MAX)
        die("too many values", "table");
    choices->of[choices->count++] = (struct choice){mask, value};
}

/* All values of the masked word that are none of the rule's, below a prefix of bits that is set. */
static void add_others(struct choices *choices, const struct filter_rule *rule,
                       uint32_t prefix_mask, uint32_t prefix)
{
    uint32_t left = rule->mask & ~prefix_mask, bit;
    bool has_any = false;

    for (unsigned i = 0; i < rule->count; i++)
        has_any |= (rule->values[i] & prefix_mask) == prefix;
    if (!has_any) {
        add_choice(choices, prefix_mask, prefix);
        return;
    }
    if (!left)
        return; /* it is one of them */
    for (bit = UINT32_C(1) << 31; !(left & bit); bit >>= 1)
        ;
    add_others(choices, rule, prefix_mask | bit, prefix);
    add_others(choices, rule, prefix_mask | bit, prefix | bit);
}

/* Of one rule that denies: the values that it lets pass. */
static void rule_choices(const struct filter_row *row, const struct filter_rule *rule,
                         struct choices *ret)
{
    ret->count = 0;
    if (rule->action == FILTER_ALLOW || rule->test == FILTER_TEST_ONLY)
        die("a rule that allows cannot be said", row->name);
    if (rule->test == FILTER_TEST_IS)
        add_others(ret, rule, 0, 0);
    for (unsigned i = 0; rule->test == FILTER_TEST_IS_NOT && i < rule->count; i++)
        add_choice(ret, rule->mask, rule->values[i]);
    for (unsigned i = 0; rule->word & 1 && i < ret->count; i++) {
        ret->of[i].mask <<= 32;
        ret->of[i].value <<= 32;
    }
}

/* Both have to hold: every pair of them, where the two do not speak of the same bits. */
static void both(const char *name, struct choices *choices, const struct choices *also)
{
    static struct choices product;

    if (choices->count == 0) {
        *choices = *also;
        return;
    }
    product.count = 0;
    for (unsigned i = 0; i < choices->count; i++) {
        for (unsigned j = 0; j < also->count; j++) {
            if (choices->of[i].mask & also->of[j].mask)
                die("two rules on the same bits", name);
            add_choice(&product, choices->of[i].mask | also->of[j].mask,
                       choices->of[i].value | also->of[j].value);
        }
    }
    *choices = product;
}

/*
 * Many readers of JSON have no numbers above INT64_MAX. A mask that has the highest bit leaves few
 * others open: each of their combinations becomes a value of its own.
 */
static void spell_out(const char *name, struct choices *choices)
{
    static struct choices spelled;

    spelled.count = 0;
    for (unsigned i = 0; i < choices->count; i++) {
        uint64_t open = ~choices->of[i].mask, bits = open;

        if (!(choices->of[i].mask >> 63)) {
            add_choice(&spelled, choices->of[i].mask, choices->of[i].value);
            continue;
        }
        if (choices->of[i].value >> 63 || __builtin_popcountll(open) > 4)
            die("no numbers for its mask", name);
        for (;; bits = (bits - 1) & open) { /* every subset of them, from all to none */
            add_choice(&spelled, UINT64_MAX, choices->of[i].value | bits);
            if (bits == 0)
                break;
        }
    }
    *choices = spelled;
}

/* --- printing --- */

static unsigned entries;

static void begin_entry(void)
{
    say("%s\n        {\n", entries++ ? "," : "");
}

static void end_entry(const char *action, int error)
{
    say("            \"action\": \"%s\"", action);
    if (error)
        say(",\n            \"errnoRet\": %d", error);
    say("\n        }");
}

static void print_condition(unsigned argument, const struct choice *choice, bool is_first)
{
    bool is_whole = choice->mask == UINT64_MAX;

    say("%s{\"index\": %u, \"value\": %llu, \"valueTwo\": %llu, \"op\": \"%s\"}",
        is_first ? "" : ",\n                ", argument,
        (unsigned long long)(is_whole ? choice->value : choice->mask),
        (unsigned long long)(is_whole ? 0 : choice->value),
        is_whole ? "SCMP_CMP_EQ" : "SCMP_CMP_MASKED_EQ");
}

/* One entry for each combination; `chosen` counts through them. */
static void print_checked(const char *name, const struct choices *choices)
{
    unsigned chosen[ARGUMENTS] = {0}, argument;

    do {
        bool is_first = true;

        begin_entry();
        say("            \"names\": [\"%s\"],\n            \"args\": [", name);
        for (argument = 0; argument < ARGUMENTS; argument++) {
            if (choices[argument].count == 0)
                continue;
            print_condition(argument, &choices[argument].of[chosen[argument]], is_first);
            is_first = false;
        }
        say("],\n");
        end_entry("SCMP_ACT_ALLOW", 0);
        for (argument = 0; argument < ARGUMENTS; argument++) {
            if (++chosen[argument] < choices[argument].count)
                break;
            chosen[argument] = 0;
        }
    } while (argument < ARGUMENTS);
}

static void print_rules(const struct filter_row *row)
{
    static struct choices choices[ARGUMENTS], one;

    if (row->action != FILTER_ALLOW)
        die("rules on what is denied anyway", row->name);
    memset(choices, 0, sizeof(choices));
    for (const struct filter_rule *rule = row->rules; rule->test != FILTER_TEST_END; rule++) {
        rule_choices(row, rule, &one);
        both(row->name, &choices[rule->word / 2], &one);
    }
    for (unsigned i = 0; i < ARGUMENTS; i++)
        spell_out(row->name, &choices[i]);
    print_checked(row->name, choices);
}

/* All calls that get the same answer whatever their arguments are. */
static void print_plain(uint16_t action, const char *word)
{
    size_t column = LINE_MAX_BYTES;
    bool is_first = true;

    begin_entry();
    say("            \"names\": [");
    for (size_t i = 0; i < ROWS; i++) {
        const struct filter_row *row = &filter_table[i];

        if (!(row->profiles & FILTER_WARDEN) || row->rules || row->action != action)
            continue;
        if (!is_first)
            say(",");
        if (column + strlen(row->name) + 4 > LINE_MAX_BYTES) {
            say("\n                ");
            column = 16;
        } else {
            say(" ");
            column++;
        }
        say("\"%s\"", row->name);
        column += strlen(row->name) + 3;
        is_first = false;
    }
    say("\n            ],\n");
    end_entry(word, action);
}

static void print_profile(void)
{
    say("{\n"
        "    \"defaultAction\": \"SCMP_ACT_ERRNO\",\n"
        "    \"defaultErrnoRet\": %d,\n"
        "    \"archMap\": [\n"
        "        {\"architecture\": \"SCMP_ARCH_X86_64\", \"subArchitectures\": []},\n"
        "        {\"architecture\": \"SCMP_ARCH_AARCH64\", \"subArchitectures\": []}\n"
        "    ],\n"
        "    \"syscalls\": [",
        FILTER_NOSYS);
    print_plain(FILTER_ALLOW, "SCMP_ACT_ALLOW");
    for (size_t i = 0; i < ROWS; i++) {
        if (filter_table[i].profiles & FILTER_WARDEN && filter_table[i].rules)
            print_rules(&filter_table[i]);
    }
    print_plain(FILTER_DENY, "SCMP_ACT_ERRNO");
    print_plain(FILTER_NOSYS, "SCMP_ACT_ERRNO");
    say("\n    ]\n}\n");
}

/* Without what is there for people only: no name or word has a blank in it. As numbers, because a
 * compiler may find a string too long. */
static void print_c(void)
{
    printf("/* docker_profile.c - made by tools/gen-profile.c from sandbox/filter_table.h. */\n"
           "#include \"runtime/docker/profile.h\"\n\n"
           "static const char profile[] = {");
    for (size_t i = 0, column = 0; i < text_length; i++) {
        if (text[i] == '\n' || text[i] == ' ')
            continue;
        printf("%s%d,", column++ % 20 == 0 ? "\n    " : " ", text[i]);
    }
    printf("\n    0,\n};\n\nconst char *docker_seccomp_profile(void)\n{\n    return profile;\n}\n");
}

int main(int argc, char **argv)
{
    print_profile();
    if (argc == 2 && strcmp(argv[1], "--c") == 0)
        print_c();
    else
        fputs(text, stdout);
    return fflush(stdout) == 0 ? 0 : 1;
}
