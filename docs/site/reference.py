#!/usr/bin/env python3
"""Pages of the reference that the program writes itself: options, keys of files, and what its tables name.

Their one source is `foreline`: --help all (the man pages have the same tables), the lists that commands print, and
`foreline manual tables`. usage: reference.py FORELINE FOLDER
"""
import html
import json
import pathlib
import re
import subprocess
import sys


def ask(foreline, *words):
    return subprocess.run([foreline, *words], stdout=subprocess.PIPE, check=True).stdout.decode()


# ---- Markdown

def prose(text):
    """Text of the program as Markdown: options, pages and names of files are marked, the rest is literal."""
    def one(part):
        page = re.fullmatch(r"docs/([a-z0-9/-]+\.md)", part)
        if page:
            return f"[{part}](../../{page.group(1)})"
        if re.match(r"--[a-z]|`", part):
            return f"`{part.strip('`')}`"
        return re.sub(r"([\\*_\[\]#])", r"\\\1", html.escape(part, quote=False)).replace("|", "&#124;")
    return "".join(one(part) for part in re.split(r"(docs/[a-z0-9/-]+\.md|--[a-z][a-z-]*|`[^`]+`)", text))


def table(head, rows):
    """rows: lists of cells that are Markdown already."""
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines) + "\n"


def code(text):
    return f"<code>{html.escape(text, quote=False).replace('|', '&#124;')}</code>" if text else ""


def block(text):
    return "```\n" + text.strip("\n") + "\n```\n\n"


def paragraphs(text):
    """Paragraphs of a help text; those that are laid out by hand stay as they are."""
    out = ""
    for part in re.split(r"\n\s*\n", text.strip("\n")):
        laid_out = any(re.match(r"\s", line) or re.search(r"\S {2,}\S", line) for line in part.split("\n"))
        out += block(part) if laid_out else prose(" ".join(part.split())) + "\n\n"
    return out


# ---- help texts

def rows_of(text):
    """[(heading, [(option, meaning)])] of lines as --help prints options."""
    groups = []
    for line in text.split("\n"):
        heading, option = re.fullmatch(r"(\w[\w ,-]*):", line), re.match(r"  (--\S.*?)(?:  +(\S.*))?$", line)
        if heading:
            groups.append((heading.group(1), []))
        elif option:
            groups[-1][1].append([option.group(1), option.group(2) or ""])
        elif re.match(r" {20}", line):
            groups[-1][1][-1][1] += " " + line.strip()
    return groups


def options(text, prefix="--"):
    """Tables of options, or of keys of files (prefix "" or "plan."), under their headings."""
    out = ""
    for heading, rows in rows_of(text):
        out += f"## {heading.capitalize()}\n\n"
        named = []
        for option, meaning in rows:
            name, alias, value = re.fullmatch(r"--([^ ,]+)(?:, (--[a-z]+))? ?(.*)", option).groups()
            mark = f'<a id="{name}"></a>' if prefix == "--" else ""
            also = f", {code(alias)}" if alias and prefix == "--" else ""
            named.append([f"{mark}{code(prefix + name)}{also} {code(value)}", prose(meaning.strip())])
        out += table(["option" if prefix == "--" else "key", "meaning"], named)
    return out


def parts(text):
    """usage, what is said before options, the options, and calls as examples, of a help text."""
    usage, _, rest = text.partition("\n\n")
    rest = rest.partition("\nmore:\n")[0]
    rest, _, examples = rest.partition("\nexamples:\n")
    at = re.search(r"^\w[\w ,-]*:\n  --", rest, re.M)
    said, listed = (rest[:at.start()], rest[at.start():]) if at else (rest, "")
    summary, _, said = said.partition("\n\n")
    return usage.replace("usage: ", "", 1), summary, said, listed, examples


def sentence(text):
    return (text[0].upper() + " ".join(text[1:].split())).rstrip(".") + "."


def page_of_command(foreline, command):
    whole = ask(foreline, *command.split(), "--help", "all")
    usage, summary, said, listed, examples = parts(whole)
    out = f"# foreline {command}\n\n{prose(sentence(summary))} The same text: `foreline {command} --help all`.\n\n"
    out += block(usage) + paragraphs(said) + options(listed)
    if examples.strip():
        out += "## Examples\n\n" + block(examples)
    for word, about in re.findall(rf"^  foreline {command} --help ([a-z]+) +(.*)$", whole, re.M):
        if word != "all":
            usage, _, said, listed, _ = parts(ask(foreline, *command.split(), "--help", word))
            out += f"## {about[0].upper() + about[1:]}\n\n" + block(usage) + paragraphs(said)
            out += options(listed).replace("\n## ", "\n### ").replace("## ", "### ", 1)
    return out


# ---- tables

def named(lines):
    return table(["name", "meaning"], [[code(name), prose(meaning)] for name, meaning in
                                       (line.split("\t") for line in lines.strip("\n").split("\n"))])


def number(x):
    return f"{x:,}"


def models(foreline):
    rows = []
    for m in json.loads(ask(foreline, "model", "list", "--json"))["models"]:
        overrides = ", ".join(f"{key}={value}" for key, value in m["overrides"].items())
        rows.append([code(m["name"]), prose(m["summary"]), number(m["parameters"]), number(m["ops"]),
                     number(m["tokens_per_sample"]), code(overrides)])
    return ("# Models of the zoo\n\nNames that `--model` takes, with what can be overridden (`gpt2-small:layers=6`). "
            "Printed by `foreline model list`; see [models](../models.md).\n\n" +
            table(["name", "model", "parameters", "ops", "tokens", "overrides and their defaults"], rows))


def platforms(foreline):
    rows = [[code(p["name"]), prose(p["summary"]), number(p["devices"]), number(p["tiers"])]
            for p in json.loads(ask(foreline, "topology", "list", "--json"))["platforms"]]
    return ("# Shipped platforms\n\nNames that `--platform` takes besides files and [generated platforms](topologies.md). "
            "Printed by `foreline topology list`; see [platforms](../platforms.md).\n\n" +
            table(["name", "platform", "devices", "tiers"], rows))


def topologies(foreline):
    out = ("# Generated platforms\n\n`--platform FAMILY:KEY=VALUE,...` generates a platform; so does `foreline topology generate`. "
           "Printed by `foreline topology generate list`; see [topologies](../topologies.md).\n\n")
    for part in ask(foreline, "topology", "generate", "list").strip("\n").split("\n\n"):
        head, *lines = part.split("\n")
        if head.startswith("# GPU"):
            out += "## GPU types\n\n" + table(
                ["name", "type", "peak", "attained", "memory", "memory bandwidth", "NVLink", "port"],
                [[code(cells[0]), *cells[1:]] for cells in (re.split(r" {2,}|(?<=\d\w) (?=[\d.]+ [TPG]flop)", line.strip())
                                                            for line in lines)])
        elif head.startswith("# system"):
            rows = []
            for line in lines:
                if line.startswith("    "):
                    rows[-1].append(code(line.strip()))
                else:
                    name, about = re.split(" {2,}", line, maxsplit=1)
                    rows.append([code(name), prose(about)])
            out += "## Named systems\n\n" + table(["name", "stands for", "the same as"], rows)
        else:
            family, _, about = head.partition(": ")
            rows = [[code(cells[0]), *map(prose, cells[1:])] for cells in
                    (re.split(" {2,}", line.strip(), maxsplit=3) for line in lines)]
            out += f"## {family}\n\n{prose(about)}\n\n" + table(["key", "value", "default", "meaning"], rows)
    return out


def partitioners(foreline):
    rows = []
    for line in ask(foreline, "plan", "--algorithm", "list").strip("\n").split("\n"):
        name, objective, about = re.fullmatch(r"(\S+) +(--objective \S+)? *(.*)", line).groups()
        rows.append([code(name), code(objective or ""), *map(prose, (about.split("; ", 1) + [""])[:2])])
    return ("# Partitioning algorithms\n\nNames that `foreline plan --algorithm` takes. Printed by "
            "`foreline plan --algorithm list`; see [partitioners](../partitioners.md).\n\n" +
            table(["name", "objective", "how", "what it guarantees"], rows))


def pages(foreline):
    """{name: Markdown}"""
    t = {title: text for title, text in re.findall(r"^# (.*)\n((?:(?!# ).*\n)*)", ask(foreline, "manual", "tables"), re.M)}
    commands = re.findall(r"^  ([a-z]+) +\S", ask(foreline, "--help"), re.M)
    if subprocess.run([foreline, "lab", "--help"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode:
        commands = [command for command in commands if command != "lab"]  # foreline-lab was not built
    else:
        at = commands.index("lab")
        commands[at + 1:at + 1] = [f"lab {word}" for word in re.findall(r"^  ([a-z]+) +\S", ask(foreline, "lab", "--help"), re.M)]
    out = {f"foreline-{command.replace(' ', '-')}.md": page_of_command(foreline, command) for command in commands}
    out["topologies.md"], out["platforms.md"] = topologies(foreline), platforms(foreline)
    out["models.md"], out["partitioners.md"] = models(foreline), partitioners(foreline)
    out["schedules.md"] = ("# Names of pipeline schedules\n\nNames that `--schedule` takes; see [schedules](../schedules.md).\n\n" +
                           named(t["schedules"]))
    out["collectives.md"] = ("# Names of collective algorithms\n\nNames that `--collective` takes besides `auto`, the choice of "
                             "NCCL; see [collectives](../collectives.md).\n\n" + named(t["collectives"]))
    out["frameworks.md"] = (
        "# Names of frameworks\n\n`--framework NAME` says whose kernels and overhead are predicted; see [kernels](../kernels.md).\n\n" +
        named(t["frameworks"]) + "## What can be overridden\n\n`--framework NAME:KEY=X,...` replaces these constants.\n\n" +
        named(t["framework keys"]) + "## Arguments of frameworks\n\nFiles that `foreline plan import` reads; `plan export --to` "
        "writes most of them. See [launch arguments](../launch-arguments.md).\n\n" + named(t["launchers"]))
    out["experiments.md"] = (
        "# Keys of experiments\n\nKeys of the files that `foreline sweep` and `foreline validate` read; each may be a list. See "
        "[sweep](../sweep.md), which has the words that are no settings (`name`, `cases`, `best`, `finalists`).\n\n" +
        options(t["experiment keys"], "") + options(t["plan keys"], "plan.").replace("## ", "## Plan: "))
    out["run-config.md"] = ("# Keys of run --config\n\nKeys of the file that `foreline run --config` reads, besides those of "
                            "[plans](experiments.md) with `plan.`; see [run](../run.md).\n\n" + options(t["run keys"], ""))
    out["formats.md"] = (
        "# Names of formats\n\nWhat is recognised by its contents, and what is written; see [formats](../formats.md).\n\n" +
        "".join(f"## {title}\n\n{named(t[key])}" for title, key in (
            ("Models: model import", "model importers"), ("Machines and networks: topology import", "topology importers"),
            ("Measured collectives: topology import --platform", "collective measurements"),
            ("Recorded runs: measurement import", "readers"), ("Simulators: simulate --export", "exporters"))))
    first = "# Options and names\n\nPages that the program writes about itself; `%s`.\n\n" % ask(foreline, "--version").strip()
    lines = [f"* [{re.match('# (.*)', text).group(1)}]({name})\n" for name, text in out.items()]
    out["README.md"] = first + "".join(lines)
    return out


def main():
    foreline, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in pages(foreline).items():
        (folder / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
