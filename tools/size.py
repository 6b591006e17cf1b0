"""How large the project is: lines and files of each package and of the tests, and the words of its pages.

python tools/size.py
"""

from pathlib import Path

ROOT = Path(__file__).parents[1]
LIMIT = 25_000  # words written by hand
GENERATED = {  # by the programs of tools/
    "docs/api.md",
    "docs/commands.md",
    "docs/guarantees.md",
    "docs/packages.md",
    "docs/recipes.md",
    "docs/analyses/index.md",
    "docs/comparisons/index.md",
}


def lines_and_files(*places: Path) -> tuple[int, int]:
    """Lines of Python in these files and folders, and in how many files they are."""
    files = [file for place in places for file in (place.rglob("*.py") if place.is_dir() else [place])]
    return sum(len(file.read_text(encoding="utf-8").splitlines()) for file in files), len(files)


def words(file: Path) -> int:
    """Words of a page, as `wc -w` counts them."""
    return len(file.read_text(encoding="utf-8").split())


def main() -> None:
    """Print a line for each package, the sums, and the words of the pages, written and generated."""
    source = ROOT / "src" / "smoothap"
    packages = sorted(folder for folder in source.iterdir() if (folder / "__init__.py").is_file())
    rows = [(package.name, *lines_and_files(package)) for package in packages]
    rows += [("src", *lines_and_files(ROOT / "src"))]
    rows += [(name, *lines_and_files(ROOT / name)) for name in ("tests", "tools", "benchmarks", "recipes")]
    for name, lines, files in rows:
        print(f"{name:<12}{lines:>8,} lines{files:>6,} files")
    pages = {
        file.relative_to(ROOT): words(file) for file in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
    }
    written = {page: number for page, number in pages.items() if str(page) not in GENERATED}
    print()
    for page, number in sorted(pages.items(), key=lambda each: -each[1]):
        print(f"{page!s:<32}{number:>8,} words{'' if page in written else '  (generated)'}")
    print(f"{'written by hand':<32}{sum(written.values()):>8,} words{len(written):>6,} files, at most {LIMIT:,} words")


if __name__ == "__main__":
    main()
