#!/usr/bin/env python3
"""Draws sentences of the manual and messages of the sources, for a reader to judge: does somebody who knows the field, but
not foreline, understand each at once? The same seed draws the same from the same tree.

usage: judge_sample.py SEED N [SOURCE_DIR]
"""
import pathlib
import random
import re
import sys

# Calls whose string literals reach the user: an error, a warning, a note.
CALL = re.compile(r"\b(error_(?:set|context|adopt|signal)|\w+_(?:error|warn|fail|note|assume|refuse)|warn_\w+"
                  r"|(?:fail|refuse|warn|note)|fprintf(?=\(stderr))\(")
LITERAL = re.compile(r'"((?:[^"\\]|\\.)*)"')
TOKEN = re.compile(r'/\*.*?\*/|"(?:[^"\\]|\\.)*"|\'(?:[^\'\\]|\\.)\'|[()]', re.S)
WORDS_LEAST = 4


def arguments(text, at):
    """Text between the parenthesis that ends before `at` and the one that closes it."""
    depth = 1
    for token in TOKEN.finditer(text, at):
        depth += {"(": 1, ")": -1}.get(token.group(), 0)
        if not depth:
            return text[at:token.start()]
    return ""


def messages(source):
    for folder in sorted(line.split()[0] for line in (source / "folders.txt").read_text().split("\n")
                         if re.match("[a-z]", line)):
        for path in sorted((source / folder).glob("**/*.c")):
            text = path.read_text(encoding="utf-8")
            for call in CALL.finditer(text):
                inside = re.sub(r"/\*.*?\*/", "", arguments(text, call.end()), flags=re.S)
                whole = re.sub(r'"\s*"', "", re.sub(r'"\s*PRI([a-z])\w*\s*"', r"\1", inside))  # adjacent literals are one
                for literal in LITERAL.findall(whole):
                    line = literal.replace("\\n", " ").replace('\\"', '"').strip()
                    if len(re.findall("[A-Za-z]{2,}", line)) >= WORDS_LEAST:
                        yield f"{path.relative_to(source)}:{text.count(chr(10), 0, call.start()) + 1}", line


def sentences(source):
    pages = [source / "README.md"]
    pages += sorted(p for p in source.glob("docs/**/*.md") if p.relative_to(source).parts[1] != "results")
    for path in pages:
        paragraph, first, fenced = [], 0, False
        for number, line in enumerate(path.read_text(encoding="utf-8").split("\n") + [""], 1):
            fenced ^= line.startswith("```")
            prose = line.strip() and not fenced and not re.match(r"    |#|\||```|!\[", line)
            if paragraph and (not prose or re.match(r"\s*([*-]|\d+\.) ", line)):
                text = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", " ".join(paragraph))
                for sentence in re.split(r"(?<=[.!?])\s+(?=[A-Z`*\"(])", text):
                    if len(re.findall("[A-Za-z]{2,}", sentence)) >= WORDS_LEAST:
                        yield f"{path.relative_to(source)}:{first}", sentence
                paragraph = []
            if prose:
                first = first if paragraph else number
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
