"""How large the project is: lines and files of each package and of the tests, and the words of its pages.

python tools/size.py
"""

from pathlib import Path

ROOT = Path(__file__).parents[1]


def lines_and_files(*places: Path) -> tuple[int, int]:
    """Lines of Python in these files and folders, and in how many files they are."""
    files = [file for place in places for file in (place.rglob("*.py") if place.is_dir() else [place])]
    return sum(len(file.read_text(encoding="utf-8").splitlines()) for file in files), len(files)


def words(file: Path) -> int:
    """Words of a page, as `wc -w` counts them."""
    return len(file.read_text(encoding="utf-8").split())


def main() -> None:
    """Print a line for each package, the sums, and the words of README and docs/*.md."""
    source = ROOT / "src" / "smoothap"
    packages = sorted(folder for folder in source.iterdir() if (folder / "__init__.py").is_file())
    rows = [(package.name, *lines_and_files(package)) for package in packages]
    rows += [("src", *lines_and_files(ROOT / "src"))]
    rows += [(name, *lines_and_files(ROOT / name)) for name in ("tests", "tools", "benchmarks", "recipes")]
    for name, lines, files in rows:
        print(f"{name:<12}{lines:>8,} lines{files:>6,} files")
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    print(f"{'pages':<12}{sum(map(words, pages)):>8,} words{len(pages):>6,} files")


if __name__ == "__main__":
    main()
