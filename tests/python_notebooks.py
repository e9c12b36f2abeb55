"""The notebooks of examples/notebooks: their code cells by plain Python, and by Jupyter where that is installed. Usage:
python_notebooks.py PREFIX|- NOTEBOOK..., where - is the foreline that Python finds by itself"""
import ast
import json
import os
import sys
import tempfile
from pathlib import Path

if sys.argv[1] != "-":
    os.environ["FORELINE_PREFIX"] = str(Path(sys.argv[1]).resolve())
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "python"))
    os.environ["PYTHONPATH"] = sys.path[0] # for the kernel


def run(path):
    """What a notebook shows: the value of an expression at the end of a cell."""
    shown, names = 0, {"__name__": "__main__"}
    for i, cell in enumerate(json.loads(path.read_text(encoding="utf-8"))["cells"], 1):
        if cell["cell_type"] != "code":
            continue
        assert not cell["outputs"] and cell["execution_count"] is None, f"{path}: cell {i} has outputs"
        tree = ast.parse("".join(cell["source"]), f"{path.name}, cell {i}")
        last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, f"{path.name}, cell {i}", "exec"), names) # pylint: disable=exec-used
        if last:
            value = eval(compile(ast.Expression(last.value), f"{path.name}, cell {i}", "eval"), names) # pylint: disable=eval-used
            text = value._repr_html_() if hasattr(value, "_repr_html_") else repr(value)
            assert text or value is None, f"{path}: cell {i} shows nothing"
            shown += 1
    print(f"{path.name}: {shown} cells show something")


def main():
    notebooks = [Path(p).resolve() for p in sys.argv[2:]]
    assert notebooks
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for path in notebooks:
            run(path)
        try:
            import nbclient
            import nbformat
        except ImportError:
            print("Jupyter: skipped, nbclient and nbformat are not installed")
            return
        for path in notebooks:
            nbclient.NotebookClient(nbformat.read(path, 4), timeout=120).execute()
            print(f"{path.name}: by Jupyter")


main()
