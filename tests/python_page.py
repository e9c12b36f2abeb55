"""docs/reference/python.md as it stands: its sessions are run, and say what the page says. With RENEW set, the page gets what they
say. Usage: python_page.py PREFIX PAGE"""
import doctest
import os
import re
import sys
import tempfile
from pathlib import Path

os.environ["FORELINE_PREFIX"] = str(Path(sys.argv[1]).resolve())
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "python"))
OPTIONS = doctest.ELLIPSIS | doctest.IGNORE_EXCEPTION_DETAIL
page = Path(sys.argv[2]).resolve()
text = page.read_text(encoding="utf-8")
# A fence ends what is said.
sessions = re.sub(r"^```(python)?$", "", text, flags=re.M)
test = doctest.DocTestParser().get_doctest(sessions, {}, page.name, str(page), 0)


class Renew(doctest.DocTestRunner):
    """Puts what was said in the place of what is on the page."""

    at = 0

    def report_failure(self, out, test, example, got):
        global text
        typed = ">>> " + example.source.rstrip("\n").replace("\n", "\n... ") + "\n"
        typed = typed.replace("\n... \n", "\n...\n")
        said = text.index(typed, self.at) + len(typed)
        text = text[:said] + got + text[said + len(example.want):]
        self.at = said


with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    runner = (Renew if os.environ.get("RENEW") else doctest.DocTestRunner)(optionflags=OPTIONS)
    failed, tried = runner.run(test)
    os.chdir("/")
if os.environ.get("RENEW"):
    page.write_text(text, encoding="utf-8")
    sys.exit(0)
print(f"{page.name}: {tried} lines of sessions, {failed} say something else")
sys.exit(failed > 0 or tried < 20)
