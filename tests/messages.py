#!/usr/bin/env python3
"""List every message of the sources, for a review of their wording.

Usage: messages.py [--kind error,warning,note,usage,text] [FOLDER|FILE ...]     default: all of the repository

Prints `AREA KIND FILE:LINE: MESSAGE`, sorted by area, file and line. Adjacent string literals are joined, and further texts
of the same call (the branches of a condition, say) follow after ` | `. KIND is how the text leaves the program:
    error     error_set(), FAIL(), error_context(); in Python raise, sys.exit(), parser.error()
    warning   a call or function whose name has "warn", or a text that starts with "warning:"
    note      other texts on standard error and calls or functions whose name has "note" or "complain"
    usage     rows of .def tables and help of options
    text      other texts of at least three words, such as reasons that a message takes in
Nothing is stored: the sources are the only copy of their messages.
"""
import ast
import os
import re
import subprocess
import sys

SKIPPED = ("tests/", "docs/", "examples/", "papers/bench/", "bench/")
ERRORS = {"error_set", "FAIL", "error_context", "error_interrupted", "Py_Fail"}
TOKEN = re.compile(r'''/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|[A-Za-z_]\w*|\#[ \t]*include[^\n]*|\n|\S''',
                   re.S)
FUNCTION = re.compile(r"^(?:[A-Za-z_][\w\s*]*?)\b(\w+)\(", re.M)
WORDS = re.compile(r"[A-Za-z%][\w%'-]*")


def is_prose(text, words):
    """Whether a literal has so many words, as opposed to a format of data or code."""
    return len(WORDS.findall(re.sub(r"%[-+ #0-9.*]*(?:PRI\w+|[hlzj]*[a-zA-Z])", "%s", text))) >= words and " " in text.strip()


def kind_of(calls, function, text, table):
    if any(call in ERRORS for call in calls):
        return "error"
    if any("warn" in call for call in calls) or "warn" in function or text.startswith("warning"):
        return "warning"
    if any(word in call for call in calls for word in ("note", "complain")) or "note" in function or "stderr" in calls:
        return "note"
    return "usage" if table else "text"


def c_messages(path, source):
    """Messages of a C source or a .def table: (line, kind, text)."""
    found, calls, line, function = [], [], 1, ""
    joined, start, name, depth = None, 0, "", 0
    group = {}  # index in found of the first text of the outermost message call

    def close():
        nonlocal joined
        if joined is None:
            return
        text, joined = joined, None
        names = [call for call, _ in calls]
        kind = kind_of(names, function, text, path.endswith(".def"))
        key = next((serial for call, serial in calls if call in ERRORS or "printf" in call or "warn" in call), None)
        if key is not None and key in group:
            if is_prose(text, 1) or len(text) > 2:
                found[group[key]][2] += " | " + text
        elif is_prose(text, 3 if kind == "text" else 2):
            if key is not None:
                group[key] = len(found)
            found.append([start, kind, text])

    serial = 0
    previous_newline = True
    for match in TOKEN.finditer(source):
        token = match.group()
        if token == "\n":
            line += 1
            previous_newline = True
            continue
        at_margin, previous_newline = previous_newline and match.start() == source.rfind("\n", 0, match.start()) + 1, False
        if token.startswith(("/*", "//")):
            line += token.count("\n")
        elif token.startswith('"'):
            if joined is None:
                joined, start = "", line
            joined += token[1:-1]
        elif token.startswith("#"):
            pass
        else:
            if joined is not None and re.match(r"PRI[diuxX]\w+$", token):
                joined += token
                continue
            close()
            if token == "(":
                serial += 1
                calls.append((name, serial))
            elif token == ")":
                if calls:
                    calls.pop()
            elif token in ("stderr", "notes", "warnings") and calls:
                calls[-1] = ("stderr" if token != "warnings" else "warn", calls[-1][1])
            elif token == "{":
                depth += 1
                calls = []
            elif token == "}":
                depth -= 1
                calls = []
            if at_margin and depth == 0:
                head = FUNCTION.match(source, match.start())
                function = head.group(1) if head else function
            name = token
    close()
    return found


def python_text(node):
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(part.value if isinstance(part, ast.Constant) else "{}" for part in node.values)
    return None


def python_messages(path, source):
    found = []
    for node in ast.walk(ast.parse(source, path)):
        kind = None
        if isinstance(node, ast.Raise):
            kind = "error"
        elif isinstance(node, ast.Call):
            call = ast.unparse(node.func)
            if call in ("sys.exit", "die", "fail") or call.endswith(".error"):
                kind = "error"
            elif "warn" in call:
                kind = "warning"
            elif call == "print" and "stderr" in ast.unparse(node):
                kind = "note"
            elif call.endswith("add_argument"):
                kind = "usage"
        if kind:
            inner, texts = [node], []
            while inner:
                part = inner.pop(0)
                text = python_text(part)
                if text is None:
                    inner += list(ast.iter_child_nodes(part))
                elif is_prose(text, 2):
                    texts.append(text.replace("\n", "\\n"))
            if texts:
                found.append((node.lineno, kind, " | ".join(texts)))
    return found


def files_of(root, wanted):
    names = subprocess.run(["git", "ls-files", "--"] + wanted, cwd=root, check=True, capture_output=True, text=True).stdout.split("\n")
    return [name for name in names if name and (wanted or not name.startswith(SKIPPED))]


def main(arguments):
    kinds = None
    if arguments[:1] in (["-h"], ["--help"]):
        print(__doc__.strip())
        return
    if arguments[:1] == ["--kind"]:
        kinds = arguments[1].split(",")
        arguments = arguments[2:]
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    rows = []
    for name in files_of(root, arguments):
        read = python_messages if name.endswith(".py") else c_messages if name.endswith((".c", ".h", ".def", ".cc", ".cu")) else None
        if not read:
            continue
        with open(os.path.join(root, name), encoding="utf-8") as file:
            for line, kind, text in read(name, file.read()):
                if not kinds or kind in kinds:
                    rows.append((os.path.dirname(name) or ".", name, line, kind, text))
    for area, name, line, kind, text in sorted(rows):
        print(f"{area} {kind} {name}:{line}: {text}")


if __name__ == "__main__":
    main(sys.argv[1:])
