/*
 * gen-filter.c - compiles sandbox/filter_table.h into C: the constants of sandbox/filter.h, for
 * every architecture we know. Runs at build time only; libseccomp gives the numbers of the calls.
 *
 * Theory of operation. libseccomp's own compiler makes a comparison for each call; loading such a
 * program takes longer, because the kernel checks it, translates it, and runs it once for every
 * number to find those that are always allowed (measured: 446 instructions and 105 us as a tree,
 * 356 and 298 us as a list; 141 and 47 us as here). So: numbers next to each other with the same
 * answer become one range, ranges become a binary search, and equal endings are shared.
 * Instructions are laid down from the last to the first, because jumps only go forward: what one
 * jumps to is always there already. The result is then run here, by an interpreter, over every
 * number and the arguments that the rules speak of, and compared with the table; a difference is a
 * failed build.
 */
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <seccomp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sandbox/filter_table.h"

#define ROWS (sizeof(filter_table) / sizeof(filter_table[0]))
#define NUMBERS 512   /* above the last call of every architecture here */
#define CODE_MAX 1024 /* BPF_MAXINSNS is 4096 */
#define WORDS 12      /* halves of arguments */
#define JUMP_MAX 250  /* a conditional jump has 8 bits; leaves room for its own detours */
#define BLOCKS_MAX 64
#define RET_KILL UINT32_MAX /* our word for it; an errno is never that large */

struct arch {
    const char *guard;
    uint32_t scmp;
    uint32_t audit;
};

static const struct arch arches[] = {
    {"__x86_64__", SCMP_ARCH_X86_64, AUDIT_ARCH_X86_64},
    {"__aarch64__", SCMP_ARCH_AARCH64, AUDIT_ARCH_AARCH64},
};

struct profile {
    const char *name;
    uint8_t bit;
};

enum { GUEST, OFFLINE, WARDEN, ZYGOTE, ONE_ID, APART };
static const struct profile profiles[] = {
    [GUEST] = {"guest", FILTER_GUEST},           [OFFLINE] = {"guest_offline", FILTER_OFFLINE},
    [WARDEN] = {"warden", FILTER_WARDEN},        [ZYGOTE] = {"zygote", FILTER_ZYGOTE},
    [ONE_ID] = {"zygote_one_id", FILTER_ONE_ID}, [APART] = {"guest_apart", FILTER_APART},
};
#define PROFILES (sizeof(profiles) / sizeof(profiles[0]))

/* Numbers from `start` up to the next range get what `row` says; NULL is ENOSYS. */
struct range {
    uint32_t start;
    const struct filter_row *row;
};

struct block {
    const struct filter_row *row;
    unsigned label;
};

/* Code fills from the end: [first, CODE_MAX). A label is an index into `code`. */
struct program {
    struct sock_filter code[CODE_MAX];
    unsigned first;
    struct block blocks[BLOCKS_MAX]; /* returns and argument checks that can be shared */
    unsigned block_count;
    struct range ranges[NUMBERS + 1];
    unsigned range_count;
    const struct filter_row *rows[NUMBERS]; /* what the table says, by number */
};

static void die(const char *what, const char *name)
{
    fprintf(stderr, "gen-filter: %s: %s\n", name, what);
    exit(1);
}

/* --- the table, by number --- */

/* The number of the call, or -1 where the architecture does not have it. */
static int row_number(const struct filter_row *row, const struct arch *arch)
{
    int number = seccomp_syscall_resolve_name_arch(arch->scmp, row->name);

    if (number >= 0)
        return number;
    if (row->number)
        return row->number;
    if (number == __NR_SCMP_ERROR)
        fprintf(stderr, "gen-filter: libseccomp does not know %s, it will be ENOSYS\n", row->name);
    return -1;
}

static void place_rows(struct program *program, const struct arch *arch, uint8_t bit)
{
    for (size_t i = 0; i < ROWS; i++) {
        const struct filter_row *row = &filter_table[i];
        int number = row->profiles & bit ? row_number(row, arch) : -1;

        if (number < 0)
            continue;
        if (number >= NUMBERS)
            die("number too large", row->name);
        if (program->rows[number])
            die("two rows for one profile", row->name);
        program->rows[number] = row;
    }
}

static bool rules_equal(const struct filter_rule *a, const struct filter_rule *b)
{
    if (!a || !b)
        return a == b;
    for (; a->test == b->test; a++, b++) {
        if (a->test == FILTER_TEST_END)
            return true;
        if (a->word != b->word || a->mask != b->mask || a->action != b->action ||
            a->count != b->count ||
            memcmp(a->values, b->values, a->count * sizeof(a->values[0])) != 0)
            return false;
    }
    return false;
}

static uint16_t row_action(const struct filter_row *row)
{
    return row ? row->action : FILTER_NOSYS;
}

static bool rows_equal(const struct filter_row *a, const struct filter_row *b)
{
    return row_action(a) == row_action(b) && rules_equal(a ? a->rules : NULL, b ? b->rules : NULL);
}

static void make_ranges(struct program *program)
{
    for (uint32_t number = 0; number <= NUMBERS; number++) {
        const struct filter_row *row = number < NUMBERS ? program->rows[number] : NULL;
        struct range *last = &program->ranges[program->range_count];

        if (program->range_count && rows_equal(last[-1].row, row))
            continue;
        *last = (struct range){number, row};
        program->range_count++;
    }
}

/* --- laying down instructions, last first --- */

static unsigned push(struct program *program, uint16_t code, uint8_t jt, uint8_t jf, uint32_t k)
{
    if (program->first == 0)
        die("program too long", "code");
    program->code[--program->first] = (struct sock_filter){code, jt, jf, k};
    return program->first;
}

/* A label that a conditional jump can reach: the same, or a long jump to it. */
static unsigned near(struct program *program, unsigned label)
{
    if (label - program->first <= JUMP_MAX)
        return label;
    return push(program, BPF_JMP | BPF_JA, 0, 0, label - program->first);
}

static unsigned push_branch(struct program *program, uint16_t op, uint32_t k, unsigned yes,
                            unsigned no)
{
    yes = near(program, yes);
    no = near(program, no);
    return push(program, BPF_JMP | op | BPF_K, (uint8_t)(yes - program->first),
                (uint8_t)(no - program->first), k);
}

static unsigned push_load(struct program *program, size_t offset)
{
    return push(program, BPF_LD | BPF_W | BPF_ABS, 0, 0, (uint32_t)offset);
}

static unsigned push_return(struct program *program, uint32_t action)
{
    uint32_t value = SECCOMP_RET_ERRNO | (action & SECCOMP_RET_DATA);

    if (action == FILTER_ALLOW)
        value = SECCOMP_RET_ALLOW;
    else if (action == RET_KILL)
        value = SECCOMP_RET_KILL_PROCESS;
    else if (action == FILTER_NO_EFFECT)
        value = SECCOMP_RET_ERRNO; /* of 0: the call returns 0 */
    for (unsigned at = program->first; at < CODE_MAX && at - program->first <= JUMP_MAX; at++)
        if (program->code[at].code == (BPF_RET | BPF_K) && program->code[at].k == value)
            return at;
    return push(program, BPF_RET | BPF_K, 0, 0, value);
}

static size_t word_offset(uint8_t word)
{
    /* Both architectures are little-endian: the low half of an argument comes first. */
    return offsetof(struct seccomp_data, args) + (size_t)word * sizeof(uint32_t);
}

static unsigned push_rule(struct program *program, const struct filter_rule *rule, unsigned next)
{
    unsigned applies = push_return(program, rule->action);
    unsigned hit = rule->test == FILTER_TEST_IS ? applies : next;
    unsigned miss = rule->test == FILTER_TEST_IS ? next : applies;

    if (rule->count == 1 && rule->values[0] == 0 && rule->mask != UINT32_MAX) {
        push_branch(program, BPF_JSET, rule->mask, miss, hit);
    } else {
        for (unsigned i = rule->count; i > 0; i--)
            miss = push_branch(program, BPF_JEQ, rule->values[i - 1], hit, miss);
        if (rule->mask != UINT32_MAX)
            push(program, BPF_ALU | BPF_AND | BPF_K, 0, 0, rule->mask);
    }
    return push_load(program, word_offset(rule->word));
}

/* The rules that follow apply only to some values: the others go on behind them. */
static unsigned push_only(struct program *program, const struct filter_rule *rule, unsigned inside,
                          unsigned behind)
{
    for (unsigned i = rule->count; i > 0; i--)
        behind = push_branch(program, BPF_JEQ, rule->values[i - 1], inside, behind);
    return push_load(program, word_offset(rule->word));
}

/* Where a call with this row goes on: a return, or its argument checks. */
static unsigned push_row(struct program *program, const struct filter_row *row)
{
    unsigned label, behind, count = 0;

    if (!row || !row->rules)
        return push_return(program, row_action(row));
    for (unsigned i = 0; i < program->block_count; i++)
        if (rows_equal(program->blocks[i].row, row))
            return program->blocks[i].label;
    while (row->rules[count].test != FILTER_TEST_END)
        count++;
    label = behind = push_return(program, row->action);
    while (count > 0) {
        const struct filter_rule *rule = &row->rules[--count];

        if (rule->test == FILTER_TEST_ONLY)
            label = behind = push_only(program, rule, label, behind);
        else
            label = push_rule(program, rule, label);
    }
    if (program->block_count < BLOCKS_MAX)
        program->blocks[program->block_count++] = (struct block){row, label};
    return label;
}

/* The search over ranges [low, high]; the number is in the accumulator. */
static unsigned push_search(struct program *program, unsigned low, unsigned high)
{
    const struct range *ranges = program->ranges;
    unsigned middle = (low + high + 1) / 2;
    unsigned left, right;

    if (low == high)
        return push_row(program, ranges[low].row);
    if (high - low == 2 && ranges[high].start - ranges[low + 1].start == 1 &&
        rows_equal(ranges[low].row, ranges[high].row)) {
        /* one number that is different among others that are the same */
        left = push_row(program, ranges[low].row);
        right = push_row(program, ranges[low + 1].row);
        return push_branch(program, BPF_JEQ, ranges[low + 1].start, right, left);
    }
    right = push_search(program, middle, high);
    left = push_search(program, low, middle - 1);
    return push_branch(program, BPF_JGE, ranges[middle].start, right, left);
}

static void compile(struct program *program, const struct arch *arch, uint8_t bit)
{
    unsigned start;

    *program = (struct program){.first = CODE_MAX};
    place_rows(program, arch, bit);
    make_ranges(program);
    push_search(program, 0, program->range_count - 1);
    start = push_load(program, offsetof(struct seccomp_data, nr));
    push_branch(program, BPF_JEQ, arch->audit, start, push_return(program, RET_KILL));
    push_load(program, offsetof(struct seccomp_data, arch));
}

/* --- proof: the program answers what the table says --- */

static uint32_t interpret(const struct program *program, const struct seccomp_data *data)
{
    uint32_t a = 0;

    for (unsigned at = program->first; at < CODE_MAX; at++) {
        const struct sock_filter *in = &program->code[at];

        switch (in->code) {
        case BPF_LD | BPF_W | BPF_ABS:
            memcpy(&a, (const char *)data + in->k, sizeof(a));
            break;
        case BPF_ALU | BPF_AND | BPF_K:
            a &= in->k;
            break;
        case BPF_JMP | BPF_JA:
            at += in->k;
            break;
        case BPF_JMP | BPF_JEQ | BPF_K:
            at += a == in->k ? in->jt : in->jf;
            break;
        case BPF_JMP | BPF_JGE | BPF_K:
            at += a >= in->k ? in->jt : in->jf;
            break;
        case BPF_JMP | BPF_JSET | BPF_K:
            at += a & in->k ? in->jt : in->jf;
            break;
        case BPF_RET | BPF_K:
            return in->k;
        default:
            die("instruction unknown", "proof");
        }
    }
    die("ran over the end", "proof");
    return 0;
}

static uint32_t words_of(const struct seccomp_data *data, uint8_t word)
{
    return (uint32_t)(data->args[word / 2] >> (word % 2 ? 32 : 0));
}

static uint32_t expected(const struct filter_row *row, const struct seccomp_data *data)
{
    uint16_t action = row_action(row);
    bool is_looked_at = true;

    for (const struct filter_rule *rule = row ? row->rules : NULL; rule && rule->test; rule++) {
        bool is_one = false;

        for (unsigned i = 0; i < rule->count; i++)
            is_one |= (words_of(data, rule->word) & rule->mask) == rule->values[i];
        if (rule->test == FILTER_TEST_ONLY)
            is_looked_at = is_one;
        else if (is_looked_at && is_one == (rule->test == FILTER_TEST_IS)) {
            action = rule->action;
            break;
        }
    }
    if (action == FILTER_ALLOW)
        return SECCOMP_RET_ALLOW;
    return SECCOMP_RET_ERRNO | (action == FILTER_NO_EFFECT ? 0 : action);
}

static void set_word(struct seccomp_data *data, uint8_t word, uint32_t value)
{
    unsigned shift = word % 2 ? 32 : 0;

    data->args[word / 2] &= ~((uint64_t)UINT32_MAX << shift);
    data->args[word / 2] |= (uint64_t)value << shift;
}

/* Filters stack: what lies below a guest's has to allow what that allows. */
static void prove_below(const uint32_t answers[], size_t above, size_t below, const char *call)
{
    if (answers[above] != SECCOMP_RET_ALLOW || answers[below] == SECCOMP_RET_ALLOW)
        return;
    fprintf(stderr, "the %s may not what a %s may: ", profiles[below].name, profiles[above].name);
    die("a filter below is stricter", call);
}

/* One call against all programs: each answers as its table. */
static void prove_call(const struct program programs[PROFILES], const struct seccomp_data *data)
{
    uint32_t answers[PROFILES];

    for (size_t i = 0; i < PROFILES; i++) {
        bool known = data->nr >= 0 && data->nr < NUMBERS;
        const struct filter_row *row = known ? programs[i].rows[data->nr] : NULL;

        answers[i] = interpret(&programs[i], data);
        if (answers[i] != expected(row, data))
            die("the program differs from the table", row ? row->name : "unknown call");
    }
    for (size_t i = 0; i < PROFILES; i++) {
        const char *call =
            answers[i] == SECCOMP_RET_ALLOW ? programs[i].rows[data->nr]->name : "unknown call";

        if (i == GUEST || i == OFFLINE || i == APART)
            prove_below(answers, i, WARDEN, call);
        if (i == GUEST)
            prove_below(answers, i, ZYGOTE, call);
    }
}

/* Every combination of interesting values for the words that the rules look at, from `word` on. */
static void prove_words(const struct program programs[PROFILES], struct seccomp_data *data,
                        const struct filter_rule *rules, unsigned word)
{
    struct seccomp_data copy = *data;
    bool is_tested = false;

    if (word == WORDS) {
        prove_call(programs, data);
        return;
    }
    for (const struct filter_rule *rule = rules; rule && rule->test; rule++) {
        for (unsigned i = 0; rule->word == word && i < rule->count; i++) {
            uint32_t value = rule->values[i];
            uint32_t values[] = {value, value | ~rule->mask, value + 1, value - 1, ~value, 0};

            is_tested = true;
            for (size_t j = 0; j < sizeof(values) / sizeof(values[0]); j++) {
                set_word(&copy, (uint8_t)word, values[j]);
                prove_words(programs, &copy, rules, word + 1);
            }
        }
    }
    for (unsigned bit = 0; is_tested && bit < 32; bit++) {
        set_word(&copy, (uint8_t)word, UINT32_C(1) << bit);
        prove_words(programs, &copy, rules, word + 1);
    }
    if (!is_tested)
        prove_words(programs, data, rules, word + 1);
}

static void prove(const struct program programs[PROFILES], const struct arch *arch)
{
    static const uint64_t backgrounds[] = {0, UINT64_MAX, UINT64_C(0xdeadbeef00000000)};
    static const uint32_t strange[] = {NUMBERS,    NUMBERS + 1, 0x40000000, 0x40000000 + 59,
                                       0x7fffffff, 0x80000000,  0xffffffff};
    struct seccomp_data data = {.arch = arch->audit};

    for (size_t b = 0; b < sizeof(backgrounds) / sizeof(backgrounds[0]); b++) {
        for (size_t i = 0; i < 6; i++)
            data.args[i] = backgrounds[b];
        for (data.nr = 0; data.nr < NUMBERS; data.nr++)
            for (size_t i = 0; i < PROFILES; i++) {
                const struct filter_row *row = programs[i].rows[data.nr];

                prove_words(programs, &data, row ? row->rules : NULL, 0);
            }
        for (size_t i = 0; i < sizeof(strange) / sizeof(strange[0]); i++) {
            data.nr = (int)strange[i];
            prove_call(programs, &data);
        }
    }
    data.nr = 0;
    data.arch = arch->audit ^ __AUDIT_ARCH_64BIT;
    for (size_t i = 0; i < PROFILES; i++)
        if (interpret(&programs[i], &data) != SECCOMP_RET_KILL_PROCESS)
            die("the architecture is not checked", profiles[i].name);
}

/* --- output --- */

static void print_program(const struct program *program, const struct profile *profile)
{
    unsigned length = CODE_MAX - program->first;

    printf("static const struct sock_filter code_%s[%u] = {\n", profile->name, length);
    for (unsigned at = program->first; at < CODE_MAX; at++) {
        const struct sock_filter *in = &program->code[at];

        printf("    {0x%02x, %u, %u, 0x%08x},\n", in->code, in->jt, in->jf, in->k);
    }
    printf("};\nconst struct filter filter_%s = {%u, code_%s};\n\n", profile->name, length,
           profile->name);
}

int main(void)
{
    static struct program programs[PROFILES];

    printf("/* Made by tools/gen-filter.c from sandbox/filter_table.h. Not for editing. */\n"
           "#include <linux/filter.h>\n\n#include \"sandbox/filter.h\"\n\n");
    for (size_t i = 0; i < sizeof(arches) / sizeof(arches[0]); i++) {
        for (size_t j = 0; j < PROFILES; j++)
            compile(&programs[j], &arches[i], profiles[j].bit);
        prove(programs, &arches[i]);
        printf("#%s defined(%s)\n\n", i ? "elif" : "if", arches[i].guard);
        for (size_t j = 0; j < PROFILES; j++)
            print_program(&programs[j], &profiles[j]);
    }
    printf("#else\n#error \"no system call filter for this architecture\"\n#endif\n");
    return fflush(stdout) || ferror(stdout) ? 1 : 0;
}
