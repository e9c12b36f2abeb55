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


def texts(path):
    """(line, how, text) of what the page shows as code: how is "run" ("    $ ", for page.sh), "block" (any other line
    that is indented or fenced, with those that continue it) or "prose" (in backticks; may go over lines)."""
    lines = path.read_text(encoding="utf-8").split("\n") + [""]
    fence, printed, prose = "", False, []
    for number, line in enumerate(lines, 1):
        block = bool(fence) or line.startswith("    ") and "`" not in line
        if prose and (block or not line or line.startswith(("|", "```"))):
            start, joined, prose = number - len(prose), "\n".join(prose), []
            for span in re.finditer(r"`([^`]+)`", joined):
                yield start + joined.count("\n", 0, span.start()), "prose", re.sub(r"\s+", " ", span[1])
        if line.startswith("```"):
            fence = "" if fence else line
        elif not block and line:
            prose.append(line)
        printed = line.startswith("    ") and (printed or line.startswith("    $ "))
        if not block or "python" in fence or printed and not line.startswith("    $ "):
            continue
        text, below = line, number
        while text.endswith("\\"):
            text = text[:-1] + re.sub(r"^ *(> )?", " ", lines[below])
            below += 1
        yield number, "run" if printed else "block", text.strip().removeprefix("$ ")


def calls(path):
    """(line, words behind "foreline") of every call that the page shows."""
    for number, _, text in texts(path):
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
    """Short and older names of options, "--pipeline-parallel, --pp N" and "(also --name)": completion does not offer
    them, help tells them."""
    if command not in known:
        text = subprocess.run([foreline, command, "--help", "all"], stdout=subprocess.PIPE, check=True).stdout.decode()
        beside = re.findall(r"(?m)^  --[a-z-]+, (--[a-z]+)", text)
        known[command] = beside + re.findall(r"--[a-z][a-z-]*", " ".join(re.findall(r"\balso ([^;)]*)", text)))
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


def pages(source):
    """What is looked at: README.md, docs/ without results and decisions, and the README of every folder."""
    found = [source / "README.md", source / "CONTRIBUTING.md", source / "AGENTS.md", source / "llms.txt"]
    found += sorted(p for p in source.glob("docs/**/*.md") if p.relative_to(source).parts[1] not in ("results", "decisions"))
    found += sorted(p for p in source.glob("**/README.md") if p.relative_to(source).parts[0] not in ("build", "docs"))
    return dict.fromkeys(p for p in found if p.exists())


def main():
    foreline, source = sys.argv[1], pathlib.Path(sys.argv[2])
    place = tables(foreline)
    seen = bad = 0
    for path in pages(source):
        for number, words in calls(path):
            seen += 1
            for fault in faults(foreline, place, words):
                print(f"{path.relative_to(source)}:{number}: {fault}")
                bad += 1
    print(f"{seen} calls of foreline, {bad} faults")
    sys.exit(bad > 0 or seen < 100)


if __name__ == "__main__":
    main()
