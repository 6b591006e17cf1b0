"""How large the project is: lines and files of each package and of the tests, and the words of its pages.

python tools/size.py
"""

from pathlib import Path

ROOT = Path(__file__).parents[1]
LIMIT = 25_000  # words written by hand
AIMS = {  # lines of Python in packages that belong together
    ("functional", "losses", "_core"): 2_500,
    ("metrics",): 1_500,
    ("data",): 2_400,
    ("models",): 1_700,
    ("training",): 2_000,
    ("benchmark",): 2_200,
    ("paper", "plots"): 2_200,
    ("cli",): 1_800,
    ("album",): 4_700,
    ("server",): 2_300,
}
SOURCE_AIM, FILES_AIM, TESTS_AIM = 25_500, 220, 22_000
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
    """Print a line for each group of packages with its aim, the sums, and the words of the pages."""
    source = ROOT / "src" / "smoothap"
    packages = {folder.name for folder in source.iterdir() if (folder / "__init__.py").is_file()}
    assert packages == {name for group in AIMS for name in group}, "a package has no aim"
    for group, aim in AIMS.items():
        lines, files = lines_and_files(*(source / name for name in group))
        print(f"{', '.join(group):<28}{lines:>8,} lines{files:>6,} files   aim {aim:>6,} lines")
    lines, files = lines_and_files(ROOT / "src")
    print(f"{'src':<28}{lines:>8,} lines{files:>6,} files   aim {SOURCE_AIM:>6,} lines in {FILES_AIM} files")
    for name in ("tests", "tools", "benchmarks", "recipes"):
        lines, files = lines_and_files(ROOT / name)
        aim = f"   aim {TESTS_AIM:>6,} lines" if name == "tests" else ""
        print(f"{name:<28}{lines:>8,} lines{files:>6,} files{aim}")
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
