"""Arguments of frameworks that exports may have, as facts: tests/launch_arguments.tsv."""
import pathlib

VARIABLE = {"megatron": "FORELINE_MEGATRON_LM", "torchtitan": "FORELINE_TORCHTITAN",
            "torchtitan_toml": "FORELINE_TORCHTITAN_TOML", "deepspeed": "FORELINE_DEEPSPEED"}
TYPES = ("flag", "int", "float", "str", "list", "word")


def lines():
    path = pathlib.Path(__file__).parent / "launch_arguments.tsv"
    return path.read_text(encoding="utf-8").splitlines()


def read():
    """{framework: {argument: (type, choices, default)}}"""
    table = {framework: {} for framework in VARIABLE}
    for line in lines():
        if not line.startswith("#"):
            framework, argument, kind, choices, default = line.split("\t")
            assert kind in TYPES and argument not in table[framework], line
            table[framework][argument] = (kind, choices, default)
    return table


def versions():
    """{framework: version} of the lines "# framework version: source"."""
    return dict(line[2:].split(":")[0].split(" ", 1) for line in lines()
                if line.startswith("# ") and line[2:].split(" ")[0] in VARIABLE)


def is_number(text, kind):
    try:
        kind(text)
    except ValueError:
        return False
    return True


def wrong(row, values):
    """Why the values are none of the argument's, or None. values: a list of texts."""
    kind, choices, _ = row
    if kind in ("flag", "word"):
        return "it takes no value" if values else None
    if len(values) != 1 and kind != "list" or not values:
        return f"{len(values)} values"
    if kind == "int" and not is_number(values[0], int):
        return f"'{values[0]}' is no whole number"
    if kind == "float" and not is_number(values[0], float):
        return f"'{values[0]}' is no number"
    unknown = [v for v in values if choices != "-" and v not in choices.split(",")]
    return f"'{unknown[0]}' is none of {choices}" if unknown else None
