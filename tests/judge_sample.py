#!/usr/bin/env python3
"""Draws sentences of the manual and messages of the sources, for a reader to judge: does somebody who knows the field, but
not foreline, understand each at once? The same seed draws the same from the same tree. A message is the whole line of its call:
<path> stands for what an argument prints, {a|b} for texts between which a condition chooses. [page] is a link.
Behind a sentence stand its page and the nearest heading above it, behind a message its file and line.

usage: judge_sample.py SEED N [SOURCE_DIR]
"""
import pathlib
import random
import re
import sys

# Calls whose string literals reach the user: an error, a warning, a note.
CALL = re.compile(r"\b(error_(?:set|context|adopt|signal)|FAIL|\w+_(?:error|warn|fail|note|assume|refuse)|warn_\w+"
                  r"|(?:fail|refuse|warn|note)|fprintf(?=\(stderr))\(")
# What a function puts around its text: found in its body if that makes such a call of the text, else listed in FRAMES.
WRAPPER = re.compile(r"^(?:[a-z][\w *]*?)\b(\w+)\(([^;{]*const char \*(fmt|format|what|why|reason)\b[^;{]*)\)\n\{\n(.*?)^\}",
                     re.M | re.S)
FRAMES = {"difference_warn": "warning: the files have different {}: <first> in <path>, <other> in <path>",
          "error_context": "{}: <cause>", "json_error": "<file>:<line>:<column>: <key>: {}", "measurement_warn": "warning: {}",
          "machine_assume": "assumed: {}", "machine_warn": "warning: {}", "NOTE_ASSUMED": "assumed: {}",
          "NOTE_LOST": "not expressed: {}"}
EXPORTS = re.compile(r"\bstudy/frameworks/(?!port\.c)|\bpapers/pipedream/runtime\.c")  # port_cannot() prints these errors
UNSUPPORTED = re.compile(r"\w+\(\s*STATUS_UNSUPPORTED")
STRING = r'"(?:[^"\\]|\\.)*"'
LITERAL = re.compile(r'"((?:[^"\\]|\\.)*)"')
TOKEN = re.compile(STRING + r"|'(?:[^'\\]|\\.)'|.", re.S)
CONVERSION = re.compile(r"%(?:%|[-+ #0-9.*]*(?:hh?|ll?|z|j|t)?[a-zA-Z])")
WORDS_LEAST = 4


def split(text, mark, closed=False):
    """The parts of a text between marks outside of brackets and quotes; `closed`: up to the bracket that closes it."""
    depth, parts = 0, [""]
    for token in TOKEN.findall(text):
        depth += (token in "([{") - (token in ")]}")
        if closed and depth < 0:
            break
        if token == mark and depth == 0:
            parts.append("")
        else:
            parts[-1] += token
    return [part.strip() for part in parts]


def branches(argument):
    """The expressions between which a conditional expression chooses; of another, itself."""
    condition, *rest = split(re.sub(r"^\(([^()]*\?.*)\)$", r"\1", argument, flags=re.S), "?")
    if not rest:
        return [argument]
    yes, *no = split(" ? ".join(rest), ":")
    return branches(yes) + branches(" : ".join(no))


def shown(argument):
    """What a line shows of an argument: its texts, {a|b} where a condition chooses, else its name, such as <path>."""
    if len(branches(argument)) > 1:
        return "{" + "|".join(dict.fromkeys(map(shown, branches(argument)))) + "}"
    texts = LITERAL.findall(argument)
    if argument[:1] in ("", '"'):
        return "".join(texts)
    if len(texts) > 1:
        return "{" + "|".join(texts) + "}"
    name = re.sub(r"(?<!\w)\([\w ]+\**\)(?=[\w(*&])|(?<![\w)] )(?<!\w)[&*](?=\w)", "", argument)  # without casts, & and *
    for _ in range(3):  # without brackets
        name = re.sub(r"(?<=\w)(\([^()]*\)|\[[^][]*\])", "", re.sub(r"(?<!\w)\(([^()]*)\)", r"\1", name))
    return "<" + re.sub(r"\w+(?:->|\.)", "", re.sub(r"(?:->|\.)name$", " name", name)) + ">"


def filled(text, values):
    """A format with what its conversions show of the values, and the number of values that it takes."""
    taken = [0]

    def put(conversion):
        taken[0] += (conversion.group() != "%%") + conversion.group().count("*")
        return "%" if conversion.group() == "%%" else shown((values + ["?"] * 99)[taken[0] - 1])
    return CONVERSION.sub(put, text), taken[0]


def lines(text):
    """Every call: its name, where it starts and a text that it prints; most print one."""
    for call in CALL.finditer(text):
        inside = re.sub(r"/\*.*?\*/", "", split(text[call.end():call.end() + 5000], None, True)[0], flags=re.S)
        inside = re.sub(r'"\s*PRI([a-z])\w*', r'\1"', inside)
        inside = re.sub(rf"{STRING}(\s*{STRING})+", lambda m: '"' + "".join(LITERAL.findall(m.group())) + '"', inside)
        arguments = [argument for argument in split(inside, ",") if not CALL.search(argument)]
        kind = "".join(re.findall(r"\bNOTE_\w+", inside)[:1])
        while arguments:
            argument, *arguments = arguments
            if LITERAL.search(argument):
                ways = [filled(shown(way), arguments) for way in branches(argument)]
                arguments = arguments[max(taken for _, taken in ways):]
                line = ways[0][0] if len(ways) == 1 else "{" + "|".join(way for way, _ in ways) + "}"
                yield kind or call.group(1), call.start(), line.replace("\\n", " ").replace('\\"', '"').rstrip()


def frames(text):
    """Functions that print a text which they take: name and line, {} for the text."""
    for name, _, taken, body in WRAPPER.findall(text):
        taken = re.findall(r"vsnprintf\((\w+)", body)[0] if "vsnprintf(" in body else taken
        for inner, _, line in lines(body):
            if f"<{taken}>" in line:
                yield name, FRAMES.get(inner, "{}").replace("{}", line.replace(f"<{taken}>", "{}", 1))


def messages(source):
    paths = [path for folder in re.findall("^[a-z]+", (source / "folders.txt").read_text(), re.M)
             for path in sorted((source / folder).glob("**/*.c"))]
    texts = [path.read_text(encoding="utf-8") for path in paths]
    common = dict(frame for text in texts for frame in frames(text))
    for path, text in zip(paths, texts):
        known = {**common, **dict(frames(text)), **FRAMES}  # a static function of the file, not its namesake
        found, begun = [], None
        for name, start, line in lines(text):
            if name in FRAMES and start == begun:
                continue  # a value that the text takes
            begun = start
            if EXPORTS.search(str(path)) and UNSUPPORTED.match(text, start):
                line = line if re.match("<path>|<[^<>]*>$", line) else "<framework> cannot express this plan: " + line
            if found and line[:1] in (",", ";", ":", " "):  # goes on with the line of the call before
                found[-1][1] += "{" + line + "|}"
            else:
                found.append([f"{path.relative_to(source)}:{text.count(chr(10), 0, start) + 1}",
                              known.get(name, "{}").replace("{}", line, 1)])
        yield from ((place, line) for place, line in found if re.search("[A-Za-z]{2,}", re.sub("<[^<>]*>", "", line))
                    and len(re.findall("[A-Za-z]{2,}|<[^<>]*>", line)) >= WORDS_LEAST)


def sentences(source):
    """Every sentence, with what a reader of the manual knows of its place: the page and the nearest heading above."""
    pages = [source / "README.md"]
    pages += sorted(p for p in source.glob("docs/**/*.md") if p.relative_to(source).parts[1] != "results")
    for path in pages:
        paragraph, heading, fenced = [], "", False
        for line in path.read_text(encoding="utf-8").split("\n") + [""]:
            fenced ^= line.startswith("```")
            prose = line.strip() and not fenced and not re.match(r"    |#|\||```|!\[", line)
            if paragraph and (not prose or re.match(r"\s*([*-]|\d+\.) ", line)):
                text = re.sub(r"\[([^]]*)\]\([^)]*\)", r"[\1]", " ".join(paragraph))  # a link shows as such
                for sentence in re.split(r"(?<=[.!?])\s+(?=[\[A-Z`*\"(]|foreline\b)", text):
                    if len(re.findall("[A-Za-z]{2,}", sentence)) >= WORDS_LEAST:
                        yield f'{path.relative_to(source)}, "{heading}"', sentence
                paragraph = []
            if not fenced and re.match("#+ ", line):
                heading = line.lstrip("# ")
            if prose:
                paragraph.append(re.sub(r"^\s*([*-]|\d+\.) +", "", line).strip())


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    seed, n = sys.argv[1], int(sys.argv[2])
    source = pathlib.Path(sys.argv[3] if len(sys.argv) > 3 else pathlib.Path(__file__).resolve().parent.parent)
    for title, found in (("sentences of the manual", sentences(source)), ("messages", messages(source))):
        found = sorted(set(found))
        drawn = random.Random(f"{seed} {title}").sample(found, min(n, len(found)))
        print(f"# {len(drawn)} of {len(found)} {title}, seed {seed}\n")
        for number, (place, text) in enumerate(drawn, 1):
            print(f"{number:3}. {text}\n     ({place})")
        print()


if __name__ == "__main__":
    main()
