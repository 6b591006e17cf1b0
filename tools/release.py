"""Build the sdist and the wheel, install the wheel into an empty environment, and see that it works there.

Run by `make release-check`. Everything is installed through `constraints.txt`, as always.
"""

import os
import re
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src"
LOSS = """
import torch
from smoothap import SmoothAP, evaluate
x = torch.randn(16, 8, requires_grad=True)
labels = torch.arange(8).repeat_interleave(2)
SmoothAP()(x, labels).backward()
print(f"a loss and its gradient: {bool(x.grad.isfinite().all())}; evaluate: {evaluate(x.detach(), labels).queries}")
"""


def run(*command: object, **options: object) -> str:
    """The output of a command that must succeed."""
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, **options)  # type: ignore
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, command))} failed:\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")
    return done.stdout


def pages_beside(wheel: zipfile.ZipFile) -> list[str]:
    """What the README in the wheel's metadata links to or shows from beside itself, which an index does not have."""
    metadata = next(name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
    readme = wheel.read(metadata).decode().partition("\n\n")[2]
    if "# smoothap" not in readme:
        raise SystemExit("the wheel's metadata has no README")
    return re.findall(r"\]\((?!https?:)([^)]+)\)", readme)


def install_as_a_tool(tool: str, wheel: Path, place: Path, environment: dict[str, str]) -> None:
    """Install the wheel with the extras of `smoothap photos` by pipx or uv, as the guide says, and index a photo."""
    home = place / tool
    run(sys.executable, "-m", "venv", home)
    run(home / "bin" / "python", "-m", "pip", "install", "--quiet", tool, env={**environment, "PIP_CONSTRAINT": ""})
    settings = run(sys.executable, "-m", "pip", "config", "list", env=environment)  # which uv does not read
    named = {"UV_FIND_LINKS": "find-links", "UV_EXTRA_INDEX_URL": "extra-index-url", "SSL_CERT_FILE": "cert"}
    found = {variable: re.search(rf"{name}='([^']+)'", settings) for variable, name in named.items()}
    own = {
        "PIPX_HOME": str(home / "home"), "PIPX_BIN_DIR": str(home / "tools"), "UV_TOOL_DIR": str(home / "home"),
        "UV_TOOL_BIN_DIR": str(home / "tools"), "UV_CONSTRAINT": str(ROOT / "constraints.txt"),
        "UV_INDEX_STRATEGY": "unsafe-best-match",  # as pip takes several indexes
        **{variable: each[1] for variable, each in found.items() if each},
    }  # fmt: skip
    command = [home / "bin" / "pipx", "install"] if tool == "pipx" else [home / "bin" / "uv", "tool", "install"]
    run(*command, f"{wheel}[web,demo]", env={**environment, **own})
    (home / "photos").mkdir()
    (home / "photos" / "a.png").write_bytes((ROOT / "docs" / "figures" / "page_photo.png").read_bytes())
    smoothap = home / "tools" / "smoothap"
    run(smoothap, "index", home / "photos", "--out", home / "album", "--people", env=environment)
    print(f"{tool} installed it, and an album was made")


def main() -> None:
    """Build, look into the files, install, import, compute, and read what a missing extra says."""
    environment = {**os.environ, "PIP_CONSTRAINT": str(ROOT / "constraints.txt"), "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    environment.pop("PYTHONPATH", None)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        run(sys.executable, "-m", "build", "--outdir", place / "dist", ROOT, env=environment)
        wheel, sdist = next((place / "dist").glob("*.whl")), next((place / "dist").glob("*.tar.gz"))
        names = set(zipfile.ZipFile(wheel).namelist())
        files = (file for file in SOURCE.rglob("smoothap/**/*") if file.is_file() and "__pycache__" not in file.parts)
        missing = {file.relative_to(SOURCE).as_posix() for file in files}
        missing |= {f"smoothap/recipes/{file.name}" for file in (ROOT / "recipes").glob("*.py")}
        missing -= names
        if missing:
            raise SystemExit(f"{wheel.name} lacks {', '.join(sorted(missing))}")
        if any(name.startswith(("tests/", "tools/", "docs/")) for name in names):
            raise SystemExit(f"{wheel.name} holds more than the package")
        beside = pages_beside(zipfile.ZipFile(wheel))
        if beside:
            raise SystemExit(f"the package index would show dead links in the README: {', '.join(beside)}")
        with tarfile.open(sdist) as archive:
            kept = {Path(name).relative_to(Path(name).parts[0]).as_posix() for name in archive.getnames()}
        for name in ("README.md", "LICENSE", "pyproject.toml", "constraints.txt", "src/smoothap/__init__.py"):
            if name not in kept:
                raise SystemExit(f"{sdist.name} lacks {name}")
        print(f"{wheel.name} ({wheel.stat().st_size / 1e3:.0f} kB), {sdist.name} ({sdist.stat().st_size / 1e6:.1f} MB)")
        run(sys.executable, "-m", "venv", place / "empty")
        python = place / "empty" / "bin" / "python"
        run(python, "-m", "pip", "install", "--quiet", wheel, env=environment)
        print(run(python, "-W", "error", "-c", LOSS, cwd=place, env=environment).strip())
        packages = run(python, "-m", "pip", "list", "--format", "freeze", env=environment).split()
        print(f"{len(packages)} packages in the base installation")
        command = subprocess.run(
            [place / "empty" / "bin" / "smoothap", "--help"], capture_output=True, text=True, env=environment
        )
        said = (command.stdout + command.stderr).strip().splitlines()[-1]
        if "smoothap[cli]" not in said or "Traceback" in command.stderr:
            raise SystemExit(f"without the extra cli the command says: {command.stderr[-500:]}")
        print(f"without the extra cli: {said}")
        for tool in ("pipx", "uv"):
            install_as_a_tool(tool, wheel, place, environment)
    print("the release is sound")


if __name__ == "__main__":
    main()
