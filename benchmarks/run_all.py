"""Every benchmark of speed and memory, one after the other: prints the tables, saves the numbers and the plots.

python benchmarks/run_all.py [--quick] [--folder FOLDER] [--diffprivlib-python PYTHON]

A benchmark that fails is named at the end, and does not stop the others. Run it on a quiet machine.
"""

import argparse
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small sizes")
    parser.add_argument("--folder", type=Path, default=Path("benchmark-results"))
    parser.add_argument("--diffprivlib-python", help="interpreter of an environment with diffprivlib")
    arguments = parser.parse_args()
    folder: Path = arguments.folder
    folder.mkdir(parents=True, exist_ok=True)
    quick = ["--quick"] if arguments.quick else []
    peer = ["--diffprivlib-python", arguments.diffprivlib_python] if arguments.diffprivlib_python else []
    options = {
        "scaling": [*quick, *peer, "--plot", str(folder / "scaling.png")],
        "fit": quick,
        "out_of_core": quick,
        "persons": quick,
        "noise": ["--rounds", "1" if arguments.quick else "3"],
        "federation": quick,
        "samplers": ["--timeout", "5" if arguments.quick else "20"],
    }
    failed = []
    for name, extra in options.items():
        print(f"\n== {name}", flush=True)
        command = [sys.executable, str(HERE / f"{name}.py"), "--output", str(folder / f"{name}.json"), *extra]
        if subprocess.run(command).returncode:
            failed.append(name)
    if failed:
        sys.exit(f"Failed: {', '.join(failed)}.")


if __name__ == "__main__":
    main()
