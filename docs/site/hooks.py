"""What mkdocs does besides for foreline's manual: the generated reference, the order of pages, links to files outside of
docs/ (which become pages of the site, so that one link works here and on GitHub), and headings' names as GitHub makes them.
"""
import importlib.util
import json
import os
import pathlib
import re
import shutil
import tempfile

from mkdocs.structure.files import File

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
LINK = re.compile(r"(?<=\]\()([^)\s#]+)(#[^)\s]*)?(?=[)\s])")
FENCE = re.compile(r"^\s*```")
SHOWN_MOST = 200_000  # bytes of a file that becomes a page
made = tempfile.TemporaryDirectory(prefix="foreline-site-")
place_of = {}  # page of the site -> place in the repository, for all that are not docs/PAGE
version = ""


# ---- places

def site_page(place):
    """The page of the site that a file or folder of the repository has; its files are in docs/ or become pages."""
    path = ROOT / place
    if path.is_dir():
        return site_page(f"{place}/README.md") if (path / "README.md").exists() else f"repository/{place}/index.md"
    if place.startswith("docs/") and not place.startswith("docs/site/"):
        return place[len("docs/"):]
    return f"repository/{place}" + ("" if place.endswith(".md") else ".md")


def links(text, place):
    """(match, place in the repository) of each link of a page or listing at `place` to a file or folder that is there."""
    folder = ROOT / place if (ROOT / place).is_dir() else (ROOT / place).parent
    for at in LINK.finditer(text):
        if not re.match(r"[a-z]+:|/", at.group(1)):
            target = (folder / at.group(1)).resolve()
            if target.exists() and ROOT in target.parents:
                yield at, target.relative_to(ROOT).as_posix()


def listing(place):
    """A page that shows a folder or a file that is no page."""
    path = ROOT / place
    if path.is_dir():
        return f"# {place}/\n\n" + "".join(f"* [{p.name}]({p.name})\n" for p in sorted(path.iterdir()) if p.is_file())
    data = path.read_bytes()
    if len(data) > SHOWN_MOST or b"\0" in data:
        return f"# {place}\n\n{len(data):,} bytes: see the repository.\n"
    text = data.decode(errors="replace").rstrip("\n")
    fence = "`" * (3 + max((len(run) for run in re.findall("`+", text)), default=0))
    return f"# {place}\n\n{fence}\n{text}\n{fence}\n"


# ---- files and their order

def add(files, config, name, text, place):
    path = pathlib.Path(made.name) / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    place_of[name] = place
    files.append(File(name, made.name, config["site_dir"], config["use_directory_urls"]))


def order(files, generated):
    """Navigation: pages by the order in which docs/README.md names them, the others behind by name."""
    index = (ROOT / "docs/README.md").read_text(encoding="utf-8")
    named = [target[len("docs/"):] for _, target in links(index, "docs/README.md") if target.startswith("docs/")]
    pages = [file.src_path for file in files.documentation_pages() if file.src_path not in generated]
    pages.sort(key=lambda page: (not page.endswith("README.md"), named.index(page) if page in named else len(named), page))

    def inside(folder):
        return [page for page in pages if page.startswith(folder)]

    def section(title, inside):
        return [{title: inside}] if inside else []

    commands = [page for page in generated if "/foreline-" in page]
    names = sorted((page for page in generated if page not in commands), key=lambda page: not page.endswith("README.md"))
    return (["README.md"] + [page for page in pages if page == "tutorial.md"] + section("How-to", inside("how-to/")) +
            section("Explanation", inside("explanation/")) +
            section("Reference", section("Commands and options", commands) + section("Names and keys", names) + inside("reference/")) +
            section("Coming from", inside("coming-from/")) +
            section("About", [page for page in pages if "/" not in page and page not in ("README.md", "tutorial.md")] +
                    section("Decisions", inside("decisions/")) + section("Results", inside("results/"))))


def on_config(config):
    config["mdx_configs"]["toc"] = {"slugify": lambda text, _: re.sub(r"[^a-z0-9 _-]", "", text.lower()).replace(" ", "-")}
    return config


def on_files(files, config):
    global version
    spec = importlib.util.spec_from_file_location("reference", HERE / "reference.py")
    reference = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(reference)
    foreline = os.environ.get("FORELINE", "foreline")
    version = config["extra"]["version"] = reference.ask(foreline, "--version").strip()
    for file in list(files):
        if file.src_path.startswith("site/") and not file.src_path.endswith(".css"):
            files.remove(file)
    generated = {f"reference/generated/{name}": text for name, text in reference.pages(foreline).items()}
    for name, text in generated.items():
        add(files, config, name, text, f"docs/{name}")
    found = [f"docs/{file.src_path}" for file in files.documentation_pages() if (ROOT / "docs" / file.src_path).exists()]
    seen = set(found)
    while found:  # what pages link to, and what these link to
        place = found.pop()
        path = ROOT / place
        text = path.read_text(encoding="utf-8") if path.suffix == ".md" else listing(place)
        for _, target in links(text, place):
            if (ROOT / target / "README.md").exists():
                target = f"{target}/README.md"
            if target in seen:
                continue
            seen.add(target)
            if (ROOT / target).suffix == ".md":
                found.append(target)
                if site_page(target).startswith("repository/"):
                    add(files, config, site_page(target), (ROOT / target).read_text(encoding="utf-8"), target)
            elif site_page(target).startswith("repository/"):
                add(files, config, site_page(target), listing(target), target)
                if (ROOT / target).is_dir():
                    found.append(target)
    config["nav"] = order(files, list(generated))
    return files


# ---- pages

def on_page_markdown(markdown, page, config, files):
    page.title = page.title.replace("`", "")
    src = page.file.src_path
    place = place_of.get(src, f"docs/{src}")
    folder = src.rpartition("/")[0]
    lines, fenced = [], False
    for line in markdown.split("\n"):
        fenced ^= bool(FENCE.match(line))
        before = lines[-1] if lines else ""
        if not fenced and not line.startswith("    "):
            # GitHub begins a list or a table behind any line; Python's Markdown wants an empty one
            if re.match(r"([*-]|\d+\.) |\|", line) and before.strip() and not re.match(r"\s*([*-]|\d+\.) |\||\s", before):
                lines.append("")
            for at, target in reversed(list(links(line, place))):
                url = os.path.relpath(site_page(target), folder or ".")
                line = line[:at.start()] + url + (at.group(2) or "") + line[at.end():]
        lines.append(line)
    return "\n".join(lines)


def on_post_build(config):
    """What is searched is the manual, not the files of the repository; a page's sections, not all of it once more."""
    folder = pathlib.Path(config["site_dir"]) / "search"
    entries = json.loads((folder / "search_index.json").read_text(encoding="utf-8"))["docs"]
    parted = {entry["location"].partition("#")[0] for entry in entries if "#" in entry["location"]}
    entries = [entry for entry in entries
               if not entry["location"].startswith("repository/") and entry["location"] not in parted]
    (folder / "search_index.js").write_text(f"var foreline_index = {json.dumps(entries, separators=(',', ':'))};\n", encoding="utf-8")
    shutil.copy(HERE / "search.js", folder / "main.js")
    for name in ("search_index.json", "worker.js"):
        (folder / name).unlink()
    made.cleanup()
