/* test_redact.c - what redact() takes away, what it leaves alone, and that it stays linear. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "store/artifact.h"
#include "store/redact.h"

static void assert_redacted(const char *text, const char *expected)
{
    struct buf out = BUF_INIT(65536);

    assert_int_equal(redact(text, strlen(text), &out), 0);
    if (strcmp(buf_text(&out), expected) != 0)
        print_error("input: %s\n", text);
    assert_string_equal(buf_text(&out), expected);
    buf_free(&out);
}

struct pair {
    const char *text, *expected;
};

static void check_pairs(const struct pair *pairs, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        assert_redacted(pairs[i].text, pairs[i].expected);
        /* what was redacted once is not redacted twice */
        assert_redacted(pairs[i].expected, pairs[i].expected);
    }
}

static void test_quoted_values(void **state)
{
    static const struct pair pairs[] = {
        {"API_KEY = \"abc123\"", "API_KEY = \"[redacted]\""},
        {"API_KEY='abc123'; x = 1", "API_KEY='[redacted]'; x = 1"},
        {"os.environ[\"OPENAI_API_KEY\"] = 'sk-...'",
         "os.environ[\"OPENAI_API_KEY\"] = '[redacted]'"},
        {"{\"token\": \"abc\", \"user\": \"me\"}", "{\"token\": \"[redacted]\", \"user\": \"me\"}"},
        {"{'db_password' : 'a\\'b', 'x': 1}", "{'db_password' : '[redacted]', 'x': 1}"},
        {"secret = r\"\"\"a\nb\nc\"\"\"\nx = 1", "secret = r\"\"\"[redacted]\n\n\"\"\"\nx = 1"},
        {"password = \"never closed\nx = 1", "password = \"[redacted]\nx = 1"},
        {"client(apiKey=\"abc\", model=\"gpt\")", "client(apiKey=\"[redacted]\", model=\"gpt\")"},
        {"os.putenv(\"API_KEY\", \"abc\")", "os.putenv(\"API_KEY\", \"[redacted]\")"},
        {"if password == \"hunter2\":", "if password == \"[redacted]\":"},
        {"api_key: str = \"abc\"", "api_key: str = \"[redacted]\""},
        {"token: Optional[str] = f\"abc\"", "token: Optional[str] = f\"[redacted]\""},
        {"print(\"{\\\"api_key\\\": \\\"abc\\\"}\")",
         "print(\"{\\\"api_key\\\": \\\"[redacted]\\\"}\")"},
        {"password = \"abc\" + \"def\"", "password = \"[redacted]\" + \"[redacted]\""},
        {"key = \"abc123\"", "key = \"[redacted]\""},
        {"don't: password='hunter2'", "don't: password='[redacted]'"},
        {"headers = {\"Authorization\": \"Bearer abc\"}",
         "headers = {\"Authorization\": \"[redacted]\"}"},
    };

    (void)state;
    check_pairs(pairs, ARRAY_SIZE(pairs));
}

static void test_bare_values(void **state)
{
    static const struct pair pairs[] = {
        {"password: hunter2", "password: [redacted]"},
        {"  - password: correct horse battery\r\nnext", "  - password: [redacted]\r\nnext"},
        {"API_KEY=abc,def\nUSER=me", "API_KEY=[redacted]\nUSER=me"},
        {"export MY_TOKEN=abc;def", "export MY_TOKEN=[redacted]"},
        {"Authorization: Bearer abc", "Authorization: [redacted]"},
        {"> authorization: Basic dTpw (sent)", "> authorization: [redacted] (sent)"},
        {"GET /x?access_token=abc&page=2", "GET /x?access_token=[redacted]&page=2"},
        {"tool --password hunter2 --verbose", "tool --password [redacted] --verbose"},
        {"tool --api-key=abc run", "tool --api-key=[redacted] run"},
        {"x-api-key: abc", "x-api-key: [redacted]"},
        {"password=12345", "password=[redacted]"},
        {"login(password=password!1)", "login(password=[redacted])"},
        {"pin_secret=self-made", "pin_secret=[redacted]"},
        {"AWS_SECRET_ACCESS_KEY=wJalr/bPx+K7=", "AWS_SECRET_ACCESS_KEY=[redacted]"},
        {"key: 5f0c9a7b", "key: [redacted]"},
        {"TOKEN=\xc3\xa4\xc3\xb6\xc3\xbc end", "TOKEN=[redacted] end"},
    };

    (void)state;
    check_pairs(pairs, ARRAY_SIZE(pairs));
}

static void test_expressions(void **state)
{
    static const struct pair pairs[] = {
        {"API_KEY = os.environ.get(\"API_KEY\", \"dflt\")",
         "API_KEY = os.environ.get(\"API_KEY\", \"[redacted]\")"},
        {"r = get(url, auth=(\"me\", \"abc\"), json={\"a\": \"b\"})",
         "r = get(url, auth=(\"[redacted]\", \"[redacted]\"), json={\"a\": \"b\"})"},
        {"TOKENS = [\n  \"abc\",\n  'def',\n]\nx = \"y\"",
         "TOKENS = [\n  \"[redacted]\",\n  '[redacted]',\n]\nx = \"y\""},
        {"f(token=load(\"abc\"), model=\"gpt\")", "f(token=load(\"[redacted]\"), model=\"gpt\")"},
    };

    (void)state;
    check_pairs(pairs, ARRAY_SIZE(pairs));
}

static void test_shapes(void **state)
{
    static const struct pair pairs[] = {
        {"print('sk-abcdef0123456789abcd')", "print('[redacted]')"},
        {"x ghp_a1B2a1B2a1B2a1B2a1B2a1B2a1B2a1B2a1B2 y", "x [redacted] y"},
        {"github_pat_11AAAAAAA0aaaaaaaaaaaa_bbb", "[redacted]"},
        {"id AKIAABCD1234EFGH5678.", "id [redacted]."},
        {"xoxb-123456789012-abcdefABCDEF", "[redacted]"},
        {"curl -u bly_k1.5f0c9a7b5f0c", "curl -u [redacted]"},
        {"X-API-Key e2b_0123456789abcdef0123456789abcdef01234567 .", "X-API-Key [redacted] ."},
        {"jwt eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl ok", "jwt [redacted] ok"},
        {"Bearer abcdef1234567890", "Bearer [redacted]"},
        {"postgres://me:hunter2@db/x", "postgres://me:[redacted]@db/x"},
        {"-----BEGIN RSA PRIVATE KEY-----\nMIIEowIBAAKCAQEA\nabcd+/==\n-----END RSA PRIVATE "
         "KEY-----\nx",
         "-----BEGIN RSA PRIVATE KEY-----[redacted]\n\n\n-----END RSA PRIVATE KEY-----\nx"},
        {"k = \"-----BEGIN PRIVATE KEY-----\\nMIIEowIBAAKCAQEA", /* cut off */
         "k = \"-----BEGIN PRIVATE KEY-----[redacted]"},
    };

    (void)state;
    check_pairs(pairs, ARRAY_SIZE(pairs));
}

static void test_harmless_text_stays(void **state)
{
    static const char *const texts[] = {
        "",
        "keyboard = 5",
        "keyboard = \"qwerty12\"",
        "monkey=banana",
        "monkey = \"banana12\"",
        "tokenize(x)",
        "tokenizer = AutoTokenizer.from_pretrained(\"gpt2\")",
        "author = \"Bob\"",
        "secretary: Bob",
        "KeyError: 'name'",
        "Traceback (most recent call last):\n  File \"x.py\", line 3\nKeyError: 'token'\n",
        "for key, value in d.items():\n    print(key, value)",
        "rows.sort(key=lambda r: r[\"age\"])",
        "max(d, key=d.get)",
        "{\"key\": \"name\", \"value\": 3}",
        "max_tokens=4096, n=2",
        "def f(token: str, key: int = 3) -> None:",
        "client = OpenAI(api_key=api_key)",
        "client = OpenAI(api_key=settings.api_key, model=\"gpt\")",
        "token = None",
        "auth=True",
        "if not token:\n    raise ValueError(\"no\")",
        "print(\"password:\", pw)",
        "print(f\"token={token}\")",
        "primary_key = \"id\"",
        "token_count = 123456789",
        "password_length = 12",
        "Auth::check(x)",
        "api_key = \"\"",
        "the key to success is the token gesture",
        "<div class=\"sk-toggleable__content fitted\">",
        "sk-learn",
        "a bearer of bad news",
        "Bearer {token}",
        "line.startswith(\"-----BEGIN RSA PRIVATE KEY-----\"):\n    pass",
        "-----BEGIN CERTIFICATE-----\nMIIEowIBAAKCAQEAMIIEowIB\n-----END CERTIFICATE-----",
        "http://example.com:8080/a@b",
        "f\"postgres://{user}:{password}@db\"",
        "eyJ is how JSON begins in base64",
        "2026-11-15T08:15:04.123Z",
        "print('Hello')\nraise SystemExit(1)\n",
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
        assert_redacted(texts[i], texts[i]);
}

static void test_names(void **state)
{
    static const struct {
        const char *name;
        enum secrecy secrecy;
    } rows[] = {
        {"API_KEY", SECRECY_WEAK},
        {"apiKey", SECRECY_WEAK},
        {"APIKey", SECRECY_WEAK},
        {"apikey", SECRECY_WEAK},
        {"x-api-key", SECRECY_WEAK},
        {"token2", SECRECY_WEAK},
        {"GITHUBTOKEN", SECRECY_WEAK},
        {"KEY", SECRECY_WEAK},
        {"oauth2", SECRECY_WEAK},
        {"DB_PASSWORD_2", SECRECY_STRONG},
        {"myPasswd", SECRECY_STRONG},
        {"client_secret", SECRECY_STRONG},
        {"AWS_CREDENTIALS", SECRECY_STRONG},
        {"key", SECRECY_FAINT},
        {"tokens", SECRECY_FAINT},
        {"foreign_key", SECRECY_FAINT},
        {"monkey", SECRECY_NONE},
        {"keyboard", SECRECY_NONE},
        {"KeyError", SECRECY_NONE},
        {"key_count", SECRECY_NONE},
        {"authors", SECRECY_NONE},
        {"tokenize", SECRECY_NONE},
        {"", SECRECY_NONE},
        {"__", SECRECY_NONE},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        if (secrecy_of_name(rows[i].name, strlen(rows[i].name)) != rows[i].secrecy)
            fail_msg("%s", rows[i].name);
    }
}

static void test_any_bytes_pass(void **state)
{
    static const char text[] = "a\0b\xff\xfe PASSWORD=\xff\xfe\nTOKEN=\"x\0y\"\0z";
    static const char expected[] = "a\0b\xff\xfe PASSWORD=[redacted]\nTOKEN=\"[redacted]\"\0z";
    struct buf out = BUF_INIT(1024);

    (void)state;
    assert_int_equal(redact(text, sizeof(text) - 1, &out), 0);
    assert_int_equal(out.length, sizeof(expected) - 1);
    assert_memory_equal(out.data, expected, sizeof(expected) - 1);
    buf_free(&out);
}

static void test_the_ceiling_is_an_error(void **state)
{
    struct buf out = BUF_INIT(8);

    (void)state;
    assert_int_equal(redact("PASSWORD=x", 10, &out), -EFBIG);
    buf_free(&out);
}

/*
 * Texts that made some rule look at the rest again and again. With quadratic time 1 MiB of them
 * takes minutes each, and the test runner gives up; nothing here measures time.
 */
static void test_hostile_repetition_is_linear(void **state)
{
    static const char *const units[] = {
        "key=",
        "a_key=",
        "key=f(",
        "a_key=f(",
        "key:",
        "key=\"",
        "key='\"",
        "key=\\\"",
        "\\'",
        "a_key=\"\"\"",
        "key='''\"\"\"",
        "-----BEGIN PRIVATE KEY-----",
        "-----BEGIN ",
        "Bearer ",
        "eyJaaaaaaaaaa.",
        "eyJ",
        "sk-",
        "xoxb-",
        "ghp_",
        "://",
        "://a:",
        "key ",
        "\"key",
        "--key ",
        "key: str",
        "password:",
        "secret",
        "aA",
        "(",
        "key=(",
        "auth=('",
        "'\\",
        "\"'`",
        "key=[redacted]",
        "key=key.",
        "auth=auth.",
        " ",
        "\xff",
        "\n",
        "key: Optional[",
    };
    const size_t size = 1 << 20;
    char *text = malloc(size);
    struct buf out = BUF_INIT(4 * size);

    (void)state;
    assert_non_null(text);
    for (size_t i = 0; i < ARRAY_SIZE(units); i++) {
        for (size_t at = 0, unit = strlen(units[i]); at < size; at++)
            text[at] = units[i][at % unit];
        assert_int_equal(redact(text, size, &out), 0);
    }
    buf_free(&out);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_quoted_values),
        cmocka_unit_test(test_bare_values),
        cmocka_unit_test(test_expressions),
        cmocka_unit_test(test_shapes),
        cmocka_unit_test(test_harmless_text_stays),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_any_bytes_pass),
        cmocka_unit_test(test_the_ceiling_is_an_error),
        cmocka_unit_test(test_hostile_repetition_is_linear),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
