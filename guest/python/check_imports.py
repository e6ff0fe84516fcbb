"""check_imports.py - which blocked modules a piece of Python code imports, read from its parse tree.

    python3 -I -S check_imports.py FILE MODULE,MODULE,...      (FILE "-": standard input)

Runs in a box before the code does and never executes it. Prints one line of JSON:
    {"blocked": [{"module": "os", "line": 3, "import": "import os.path"}], "syntax_error": null}
with {"line": 2, "message": "invalid syntax"} for a syntax error, or {"error": "..."} alone when the
code cannot be parsed for another reason. It is a lint against accidents: code that hides an import
from it on purpose gets past it, and is still isolated by the box.

Works on Python 3.6 and later. Imports nothing but sys: `ast` and `json` cost more than the parsing.
"""
import sys

ONLY_AST = 0x400  # ast.PyCF_ONLY_AST
BLOCKED_MAX = 100
TEXT_MAX = 200

# Functions that import a module by its name, by the module that defines them.
IMPORTERS = {
    "importlib": ("import_module", "__import__"),
    "builtins": ("__import__",),
    "__builtin__": ("__import__",),
}


def quote(text):
    """A JSON string, in ASCII."""
    out = ['"']
    for char in text[:TEXT_MAX]:
        code = ord(char)
        if char in '"\\':
            out.append("\\" + char)
        elif 32 <= code < 127:
            out.append(char)
        elif code < 0x10000:
            out.append("\\u%04x" % (0xFFFD if 0xD800 <= code < 0xE000 else code))
        else:
            code -= 0x10000
            out.append("\\u%04x\\u%04x" % (0xD800 + (code >> 10), 0xDC00 + (code & 0x3FF)))
    out.append('"')
    return "".join(out)


def kind(node):
    return type(node).__name__


def walk(tree):
    """Every node, parents first, without recursion: code may nest deeper than the stack allows."""
    stack = [tree]
    while stack:
        node = stack.pop()
        yield node
        for field in reversed(getattr(node, "_fields", ())):
            value = getattr(node, field, None)
            if isinstance(value, list):
                stack.extend(item for item in reversed(value) if hasattr(item, "_fields"))
            elif hasattr(value, "_fields"):
                stack.append(value)


def string_of(node):
    """The text of a string in the code, else None. Str: before Python 3.8."""
    value = getattr(node, "value", None) if kind(node) == "Constant" else None
    if kind(node) == "Str":
        value = node.s
    return value if isinstance(value, str) else None


class Names:
    """The names that the code gives to modules and functions that import by name, anywhere in it."""

    def __init__(self, tree):
        self.modules = {name: name for name in IMPORTERS}
        self.modules["__builtins__"] = "builtins"
        self.functions = {"__import__": "__import__"}
        for node in walk(tree):
            if kind(node) == "Import":
                self.see_import(node)
            elif kind(node) == "ImportFrom" and node.module in IMPORTERS and not node.level:
                self.see_from(node)

    def see_import(self, node):
        for alias in node.names:
            top = alias.name.split(".")[0]
            if top in IMPORTERS and (alias.name == top or not alias.asname):
                self.modules[alias.asname or top] = top

    def see_from(self, node):
        for alias in node.names:
            if alias.name in IMPORTERS[node.module]:
                self.functions[alias.asname or alias.name] = alias.name
            elif alias.name == "*":
                self.functions.update((name, name) for name in IMPORTERS[node.module])

    def importer(self, function):
        """The called function as written in the code, if it imports by name; else None."""
        if kind(function) == "Name" and function.id in self.functions:
            return function.id
        if kind(function) == "Attribute" and kind(function.value) == "Name":
            module = self.modules.get(function.value.id)
            if module and function.attr in IMPORTERS[module]:
                return "%s.%s" % (function.value.id, function.attr)
        return None


def imports(tree):
    """(imported names, line, source text) of every import in the code."""
    names = Names(tree)
    for node in walk(tree):
        if kind(node) == "Import":
            for alias in node.names:
                suffix = " as " + alias.asname if alias.asname else ""
                yield [alias.name], node.lineno, "import " + alias.name + suffix
        elif kind(node) == "ImportFrom" and not node.level and node.module:
            asked = [alias.name for alias in node.names]
            text = "from %s import %s" % (node.module, ", ".join(asked))
            yield [node.module] + [node.module + "." + name for name in asked], node.lineno, text
        elif kind(node) == "Call":
            function = names.importer(node.func)
            given = node.args[:1] + [k.value for k in node.keywords if k.arg == "name"]
            name = string_of(given[0]) if function and given else None
            if name and not name.startswith("."):
                yield [name], node.lineno, '%s("%s")' % (function, name)


def find_blocked(tree, rules):
    """The imports that a rule forbids: "os" forbids os.path too, "os.path" only that."""
    found = []
    for names, line, text in imports(tree):
        for rule in rules:
            if any(name == rule or name.startswith(rule + ".") for name in names):
                found.append((rule, line, text))
    found.sort(key=lambda item: item[1])
    return found[:BLOCKED_MAX]


def report(source, rules):
    try:
        tree = compile(source, "main.py", "exec", ONLY_AST, True)
        found = find_blocked(tree, rules)
    except SyntaxError as error:
        return '{"blocked": [], "syntax_error": {"line": %d, "message": %s}}' % (
            error.lineno or 0, quote(str(error.msg)))
    except (RecursionError, MemoryError, ValueError, OverflowError) as error:
        return '{"error": %s}' % quote("%s: %s" % (kind(error), error))
    rows = ['{"module": %s, "line": %d, "import": %s}' % (quote(rule), line, quote(text))
            for rule, line, text in found]
    return '{"blocked": [%s], "syntax_error": null}' % ", ".join(rows)


def main(argv):
    if len(argv) != 3:
        sys.stderr.write("usage: check_imports.py FILE MODULE,MODULE,...\n")
        return 2
    sys.stderr = None  # warnings about the code belong to its own run
    try:
        with open(0 if argv[1] == "-" else argv[1], "rb") as file:
            source = file.read()
    except OSError as error:
        line = '{"error": %s}' % quote("%s" % error)
    else:
        line = report(source, [name for name in argv[2].split(",") if name])
    sys.stdout.write(line + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
