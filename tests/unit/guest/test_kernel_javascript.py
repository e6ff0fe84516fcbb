"""guest/javascript/kernel.mjs: what is particular to JavaScript."""
import os
import subprocess

import pytest

import fake_warden

pytestmark = pytest.mark.skipif(fake_warden.missing("javascript") is not None,
                                reason=str(fake_warden.missing("javascript")))


@pytest.fixture
def kernel():
    with fake_warden.Kernel("javascript") as kernel:
        yield kernel


@pytest.mark.parametrize("code, text", [
    ("1 + 1", "2"), ("1 + 1;", "2"), ("'a'", "'a'"), ("undefined", None), ("const x = 1", None),
    ("null", "null"), ("({ a: 1 })", "{ a: 1 }"), ("10n", "10n"), ("NaN", "NaN"), ("-0", "-0"),
    ("Symbol('s')", "Symbol(s)"), ("if (1) { 5 }", "5"), ("for (const i of [1, 2]) { await i; }", "2"),
    ("await 7", "7"), ("Promise.resolve(8)", "8"), ("(async () => { await 1; return 9; })()", "9"),
    ("class A {}\nnew A()", "A {}"), ("'\\0\\ud800'", "'\\x00\\ud800'"), ("'h\u00e9'", "'h\u00e9'"),
    ("new Map([[1, 2]])", "Map(1) { 1 => 2 }"), ("// nothing", None), ("'use strict'; 3", "3"),
    ("label: for (;;) { break label; }", None), ("`a${`b${1}`}`", "'ab1'"),
])
def test_result(kernel, code, text):
    cell = kernel.run(code)
    assert (cell.status, cell.text, cell.error) == (0, text, None)


def test_declarations_stay_and_may_come_again(kernel):
    kernel.run("const a = 1; let b = 2; class C { x = 3 } function d() { return 4 } var e = 5;\n"
               "const { f, g: [h] } = { f: 6, g: [7] }; async function i() { return 8 }")
    assert kernel.run("[a, b, new C().x, d(), e, f, h, await i()]").text == "[\n  1, 2, 3, 4,\n  5, 6, 7, 8\n]"
    for code in ("const a = 10", "let b = 20", "class C { x = 30 }", "function d() { return 40 }"):
        assert kernel.run(code).status == 0
    assert kernel.run("[a, b, new C().x, d()]").text == "[ 10, 20, 30, 40 ]"
    assert kernel.run("a = 5").error["name"] == "TypeError"


@pytest.mark.parametrize("code, text", [
    ("import os from 'node:os'\nos.EOL", "'\\n'"),
    ("import * as path from 'path'; path.sep", "'/'"),
    ("import { sep, join as j } from \"path\";\n[sep, typeof j]", "[ '/', 'function' ]"),
    ("import p, {\n  sep,\n  join as j,\n} from 'path'\n[typeof p, sep, typeof j]", "[ 'object', '/', 'function' ]"),
    ("import d from './mine.json' with { type: 'json' }\n[d.a]", "[ 1 ]"),
    ("import p, * as q from 'path'; p.sep + q.sep", "'//'"),
    ("import 'path'\n1", "1"),
    ("(await import('path')).sep", "'/'"),
    ("const { sep } = await import('node:path'); sep", "'/'"),
    ("import { x } from './mine.mjs'; x", "8"), ("(await import('./mine.mjs')).x", "8"),
    ("import.meta.dirname === process.cwd()", "true"), ("require('path').sep", "'/'"),
    ("const o = { import(x) { return x } }; o.import(4)", "4"),
    ("/import('x')/.test(\"import'x'\")", "true"), ("'import x from \"y\"'", "'import x from \"y\"'"),
    ("`import x from 'y'\n${ 1 } import('z')`.length", "31"), ("// import x from 'y'\n2", "2"),
    ("/* import('x') */ 3", "3"), ("const a = 4, b = 2, g = 1; a /b/ g // import", "2"),
    ("const r = [/[/'\"`]import/]; r.length", "1"), ("`${'`'}${`}`}` + typeof import('path')", "'`}object'"),
])
def test_imports(kernel, code, text):
    with open(kernel.folder + "/mine.mjs", "w", encoding="ascii") as file:
        file.write("export const x = 8;")
    with open(kernel.folder + "/mine.json", "w", encoding="ascii") as file:
        file.write('{"a": 1}')
    cell = kernel.run(code)
    assert (cell.error, cell.text) == (None, text)


def test_import_keeps_lines(kernel):
    cell = kernel.run("import {\n  sep\n} from 'path'\n\nnull.x")
    assert "Cell In[1], line 5" in cell.error["traceback"]


def test_import_that_is_missing(kernel):
    cell = kernel.run("import x from 'nosuchpackage'")
    assert "nosuchpackage" in cell.error["value"] and cell.status == 1


@pytest.mark.parametrize("code, name, value", [
    ("throw 5", "Error", "5"), ("throw new RangeError('r')", "RangeError", "r"), ("throw null", "Error", "null"),
    ("throw undefined", "Error", "undefined"), ("await Promise.reject(new TypeError('t'))", "TypeError", "t"),
    ("Promise.reject(new TypeError('t'))", "TypeError", "t"), ("let = ", "SyntaxError", None),
    ("function f() { f() }\nf()", "RangeError", None), ("throw { toString() { throw 1 } }", "Error", None),
    ("throw Object.create(null)", "Error", None), ("({ get a() { throw 1 }, [Symbol.toStringTag]: 2 })", None, None),
    ("({ [Symbol.for('nodejs.util.inspect.custom')]() { throw new Error('i') } })", "Error", "i"),
    ("new Array(2 ** 32)", "RangeError", None),
])
def test_errors_keep_the_kernel(kernel, code, name, value):
    cell = kernel.run(code)
    if name:
        assert cell.status == 1 and cell.error["name"] == name
    if value:
        assert cell.error["value"] == value
    assert kernel.run("1 + 1").text == "2"


def test_late_errors_do_not_end_the_kernel(kernel):
    cell = kernel.run("setTimeout(() => { throw new Error('late') }, 1); Promise.reject(new Error('lost'));\n"
                      "await new Promise((done) => setTimeout(done, 50))")
    assert cell.status == 0 and b"late" in cell.stderr and b"lost" in cell.stderr
    assert kernel.run("1").text == "1"


def test_endless_getter_is_interrupted(kernel):
    cell = kernel.run("({ [Symbol.for('nodejs.util.inspect.custom')]() { console.log('go'); for (;;) {} } })",
                      interrupt_at=b"go")
    assert cell.error["name"] == "Interrupted"
    assert kernel.run("1").text == "1"


def test_interrupt_again_and_again(kernel):
    kernel.run("let n = 0")
    for i in range(40):
        wait = "for (;;) {}" if i % 2 else "await new Promise(() => setTimeout(() => {}, 1e6))"
        cell = kernel.run("n++; console.log('go'); display(n); " + wait, interrupt_at=b"go")
        assert cell.status == 1 and not any(cell.others)  # an empty line says nothing
    assert kernel.run("n").text == "40"


def test_display(kernel):
    cell = kernel.run("display('<b>', 'text/html'); display(Buffer.from('png'), 'image/png');\n"
                      "display({ a: [1] }, 'application/json'); display([1]);\n"
                      "display({ [Symbol.for('Jupyter.display')]: () => ({ 'text/html': '<i>' }) })")
    assert [event["data"] for event in cell.of("display")][:4] == [
        {"text/html": "<b>"}, {"image/png": "cG5n"}, {"application/json": {"a": [1]}}, {"text/plain": "[ 1 ]"}]
    assert cell.of("display")[4]["data"]["text/html"] == "<i>"
    assert len(kernel.run("for (let i = 0; i < 2000; i++) display(i)").of("display")) == 999


def test_huge_values_are_cut(kernel):
    event = kernel.run("'x'.repeat(5000000)").of("result")[0]
    assert event["truncated"] == ["text/plain"] and len(event["data"]["text/plain"]) <= 1 << 20
    event = kernel.run("display('x'.repeat(20000000), 'image/png')").of("display")[0]
    assert event["truncated"] == ["image/png"] and event["data"] == {}


def test_input(kernel):
    assert "no standard input" in kernel.run("readline()").error["value"]
    assert kernel.run("[readline(), prompt('? '), readline()]", stdin="a\nb\n").text == "[ 'a', 'b', null ]"
    code = ("import readline_ from 'node:readline'\nconst lines = []\n"
            "for await (const line of readline_.createInterface({ input: process.stdin })) lines.push(line)\nlines")
    assert kernel.run(code, stdin="x\ny\n").text == "[ 'x', 'y' ]"


@pytest.mark.parametrize("code", [
    "JSON.stringify = JSON.parse = null", "console.log = null", "process.stdout.write = null",
    "Array.prototype.map = Array.prototype.push = null", "Buffer.from = Buffer.concat = null",
    "process.on('SIGINT', () => {})", "process.removeAllListeners()", "globalThis.setTimeout = null",
    "Promise.prototype.then = null", "String.prototype.split = null", "process.exit = null; globalThis._ = 1",
    "delete globalThis.require; delete globalThis.console", "process.stdout.end(); process.stderr.destroy()",
    "Object.freeze(globalThis)", "fs = require('fs'); fs.openSync = fs.readSync = fs.closeSync = null",
    "Buffer.prototype.lastIndexOf = null; Atomics.wait = null",
])
def test_sabotage(kernel, code):
    cell = kernel.run(code)
    assert cell.status in (0, 1)
    cell = kernel.run("1 + 1")
    assert cell.status == 0 and cell.text == "2"
    cell = kernel.run("nosuch()")
    assert cell.status == 1 and cell.error


def delay_other_threads(pid):
    """Threads of `pid` run only while its main thread sleeps: all on one CPU, the others with SCHED_IDLE."""
    cpu = min(os.sched_getaffinity(pid))
    for thread in map(int, os.listdir("/proc/%d/task" % pid)):
        os.sched_setaffinity(thread, {cpu})
        if thread != pid:
            os.sched_setscheduler(thread, os.SCHED_IDLE, os.sched_param(0))


def test_interrupt_just_before_a_cell_is_nothing(kernel):
    """The signal and the cell come while the main thread is busy: the thread that the signal handler wakes
    runs when the main thread first sleeps, which without a wait of its own is in the middle of that cell."""
    kernel.run("const { existsSync, writeFileSync, rmSync } = require('fs'); 0")
    delay_other_threads(kernel.process.pid)
    busy, go = (os.path.join(kernel.folder, name) for name in ("busy", "go"))
    for _ in range(10):
        kernel.run("setTimeout(() => { writeFileSync('busy', ''); while (!existsSync('go')); }); 0")
        while not os.path.exists(busy):
            os.sched_yield()
        kernel.interrupt()
        kernel.write("rmSync('busy'); rmSync('go'); require('child_process').execSync('true'); console.log('alive')")
        kernel.socket.sendall(kernel.unsent)
        kernel.unsent = b""
        with open(go, "w", encoding="ascii"):
            pass
        cell = kernel.follow()
        assert (cell.status, cell.stdout, cell.events) == (0, b"alive\n", [])


def test_a_cell_without_then_ends(kernel):
    """Node 18 cannot tell what came of a cell that took Promise.prototype.then away; Node 20 can."""
    cell = kernel.run("const saved = Promise.prototype.then; Promise.prototype.then = null; throw new RangeError('mine')")
    assert cell.status == 1
    assert cell.error["name"] == "RangeError" or "Promise.prototype.then" in cell.error["value"]
    assert kernel.run("(async () => 8)()").text == "8"
    cell = kernel.run("Promise.prototype.then = null; undefined")
    assert cell.status == 0 or "Promise.prototype.then" in cell.error["value"]
    assert kernel.run("Promise.prototype.then = saved; await 5").text == "5"


def test_closed_stdout_ends_the_kernel_and_says_so(kernel):
    cell = kernel.run("require('fs').closeSync(1)")
    assert cell.status is None and "descriptor" in cell.error["value"]  # no end: it ends with its kernel
    assert kernel.wait() == 1


def test_a_kernel_that_signalled_itself_ends_and_says_so(kernel):
    """process.kill() on itself ends Node's inspector even where the signal does nothing."""
    cell = kernel.run("process.kill(process.pid, 'SIGPIPE'); 1")
    assert cell.status is None and "process.kill()" in cell.error["value"]
    assert kernel.wait() == 1


def test_module_loads_in_older_and_newer_modes():
    """The file that works on texts alone is tested by itself: every import inside of nested templates."""
    path = fake_warden.GUEST / "javascript" / "cells.mjs"
    code = ("import { rewriteImports } from %r; const codes = ['import a from \"b\"', 'a/import(b)/c', "
            "'x = `${`${import(1)}`}`', '#!/usr/bin/node\\nimport \"x\"', 'import', 'import {', 'import {a', "
            "'\\'', '`', '${', '}}}import(1)', '/*', 'import a from'];"
            "console.log(JSON.stringify(codes.map(rewriteImports)))" % ("file://" + str(path)))
    done = subprocess.run([fake_warden.COMMANDS["javascript"][0], "--input-type=module", "-e", code],
                          stdout=subprocess.PIPE, check=True)
    result = __import__("json").loads(done.stdout)
    assert result[0] == 'const {default: a} = await __bailey_import__("b");'
    assert result[1] == "a/__bailey_import__(b)/c"
    assert result[2] == "x = `${`${__bailey_import__(1)}`}`"
    assert result[3] == '#!/usr/bin/node\nawait __bailey_import__("x");'
    assert result[4:10] == ["import", "import {", "import {a", "'", "`", "${"]
    assert result[10] == "}}}__bailey_import__(1)" and result[11:] == ["/*", "import a from"]
