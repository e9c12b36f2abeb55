#!/usr/bin/env python3
"""Calls of foreline that the manual shows, whether a test runs them or not: command, first word, options and the
words that an option takes exist in the tables of shell completion (a call of the
program for all pages; another for the help of a command where an option is in no table).

Looked at are indented lines, fenced blocks and `foreline ...` in backticks, in README.md, docs/ (without results and
decisions) and the README of every folder. NAMES IN CAPITALS, <names> and "..." stand for anything.

usage: shown_commands.py FORELINE SOURCE_DIR
"""
import pathlib
import re
import shlex
import subprocess
import sys

# Not the value of --framework, nor in a list of such, not "the foreline command", not the message "foreline plan: ..."
CALL = re.compile(r"(?<!framework )(?<! in )(?<!the )(?<![\w./<-])(?:[\w./~$-]*/)?foreline (?=[a-z-])(?![a-z]+:)")
ENDS = {"|", "||", "&&", ";", ">", ">>", "<", "2>", "2>&1", "#", "--", "&", "|&", "->"}


def tables(foreline):
    """{place: [words]} of completion: "" has the commands, "plan --" options, "plan --zero" an option's values."""
    text = subprocess.run([foreline, "completion", "bash"], stdout=subprocess.PIPE, check=True).stdout.decode()
    lists = dict(re.findall(r"^_foreline_(\w+)='(.*)'$", text, re.M))
    place = {key: words.split() for key, words in re.findall(r"^    '(.*)'\) echo \"(.*)\" ;;$", text, re.M)}
    place[""] = lists["commands"].split() + ["manual"]
    return place


def calls(path):
    """(line, words behind "foreline") of every call that the page shows."""
    lines = path.read_text(encoding="utf-8").split("\n")
    fenced = printed = False
    for number, line in enumerate(lines, 1):
        printed = line.startswith("    ") and (printed or line.startswith("    $ "))
        if line.startswith("```"):
            fenced = not fenced
            continue
        if printed and not line.startswith("    $ ") or "import foreline" in line:
            continue
        shown = [line] if fenced or line.startswith("    ") else re.findall(r"`([^`]+)`", line)
        if shown == [line]:
            below = number
            while shown[0].endswith("\\") and below < len(lines):
                shown[0] = shown[0][:-1] + re.sub(r"^ *(> )?", " ", lines[below])
                below += 1
        for text in shown:
            for at in CALL.finditer(text):
                yield number, split(text[at.end():])


def split(text):
    """Words of a call as the shell would see them, up to the next program."""
    lexer = shlex.shlex(text, posix=True)
    lexer.whitespace_split, lexer.commenters = True, ""
    words = []
    try:
        for word in lexer:
            if word in ENDS or word.startswith("$("):
                break
            words.append(word.rstrip(";,.:)]").lstrip("[("))
            if word.endswith(";"):
                break
    except ValueError:  # half a quotation, in prose
        pass
    return words


def plain(word):
    return re.fullmatch(r"[a-z][a-z0-9_-]*", word) is not None


def other_names(foreline, command, known={}):
    """Short and older names of options, "(also --pp; ...)": completion does not offer them, help tells them."""
    if command not in known:
        text = subprocess.run([foreline, command, "--help", "all"], stdout=subprocess.PIPE, check=True).stdout.decode()
        known[command] = re.findall(r"--[a-z][a-z-]*", " ".join(re.findall(r"\balso ([^;)]*)", text)))
    return known[command]


def faults(foreline, place, words):
    command = words[0] if words else ""
    if command in ("--help", "--version"):
        return
    if command not in place[""]:
        yield f"no command {command}"
        return
    first = place.get(command, [])
    if len(words) > 1 and plain(words[1]) and first and all(map(plain, first)) and words[1] not in first:
        yield f"{command} takes {' '.join(first)}, not {words[1]}"
    options = place.get(command + " --", [])
    for k, word in enumerate(words[1:], 1):
        name, _, value = word.partition("=")
        name = name.split("|")[0].rstrip("`")
        if name == "--help" or not re.match(r"--[a-z]", name):
            if command == "capture" and word.endswith(".py"):
                return  # the rest is the script's
            continue
        if name not in options and name.replace("--no-", "--", 1) not in options:
            if name in other_names(foreline, command):
                continue
            yield f"{command} has no option {name}"
            continue
        takes = place.get(f"{command} {name}", [])
        value = value or (words[k + 1] if k + 1 < len(words) else "")
        if not takes or any(t.startswith(("@", "$")) for t in takes) or not re.match(r"[a-z0-9]", value):
            continue
        for one in re.split("[,|]", value.split(":")[0].split("=")[0]):
            if one and one not in takes:
                yield f"{command} {name} takes {' '.join(takes)}, not {one}"


def main():
    foreline, source = sys.argv[1], pathlib.Path(sys.argv[2])
    place = tables(foreline)
    pages = [source / "README.md", source / "CONTRIBUTING.md", source / "AGENTS.md", source / "llms.txt"]
    pages += sorted(p for p in source.glob("docs/**/*.md") if p.relative_to(source).parts[1] not in ("results", "decisions"))
    pages += sorted(p for p in source.glob("**/README.md") if p.relative_to(source).parts[0] not in ("build", "docs"))
    seen = bad = 0
    for path in dict.fromkeys(p for p in pages if p.exists()):
        for number, words in calls(path):
            seen += 1
            for fault in faults(foreline, place, words):
                print(f"{path.relative_to(source)}:{number}: {fault}")
                bad += 1
    print(f"{seen} calls of foreline, {bad} faults")
    sys.exit(bad > 0 or seen < 100)


if __name__ == "__main__":
    main()
