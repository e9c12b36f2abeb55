"""What the Python package costs: the import; and simulate(), beside the call of libforeline in it and the CPU time of the
engine in that (of SimGrid without the process it runs in). Medians, as a table. Usage: FORELINE_PREFIX=build/release python3 bench/python_calls.py"""
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent.parent / "python"
sys.path.insert(0, str(PACKAGE))
import foreline as fl # pylint: disable=wrong-import-position
from foreline import _library # pylint: disable=wrong-import-position

CALLS = {"analytic": 1000, "simgrid": 100}


def import_s():
    code = "import time; t = time.perf_counter(); import foreline; print(time.perf_counter() - t)"
    environment = {**os.environ, "PYTHONPATH": str(PACKAGE)}
    return statistics.median(float(subprocess.run([sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE,
                                                  check=True).stdout) for _ in range(11))


def resident_bytes():
    return int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[1]) * os.sysconf("SC_PAGE_SIZE")


def main():
    print(f"# {fl.library_version()}, Python {sys.version.split()[0]}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    print(f"import\t{1e3 * import_s():.1f} ms, median of 11 processes")
    plan = fl.plan("gpt-tiny", "laptop", algorithm="balanced", stages=2, microbatches=4)
    print("# engine\tcalls\tsimulate_ms\tlibrary_ms\tengine_ms\tgrowth_bytes")
    for engine, calls in CALLS.items():
        fl.simulate(plan, engine=engine)
        call_s, library_s, engine_s, before = [], [], [], resident_bytes()
        for _ in range(calls):
            begin = time.perf_counter()
            engine_s.append(fl.simulate(plan, engine=engine).cpu_s)
            call_s.append(time.perf_counter() - begin)
            begin = time.perf_counter()
            text = _library.Watched({"engine": engine}, None).make("simulate", plan._handle.pointer)
            library_s.append(time.perf_counter() - begin)
            _library.library().foreline_text_free(text)
        times = "\t".join(f"{1e3 * statistics.median(s):.3f}" for s in (call_s, library_s, engine_s))
        print(f"{engine}\t{calls}\t{times}\t{resident_bytes() - before}")


main()
