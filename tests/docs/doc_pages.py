"""The pages of README and docs/, cut into what the tests look at: sections, blocks of code, links and images."""

import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

ROOT = Path(__file__).parents[2]
FENCE = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
HEADING = re.compile(r"^#+ +(.+)$", re.MULTILINE)


@dataclass(frozen=True)
class DocPage:
    """One file of Markdown."""

    file: Path

    @cached_property
    def text(self) -> str:
        return self.file.read_text(encoding="utf-8")

    @cached_property
    def prose(self) -> str:
        """The page without its blocks of code."""
        return re.sub(r"^(?:    .*\n)+", "\n", FENCE.sub("", self.text), flags=re.MULTILINE)

    def blocks(self, *languages: str) -> list[str]:
        """Fenced code in these languages; "" is none."""
        return [code for language, code in FENCE.findall(self.text) if language.strip() in languages]

    def shell_lines(self) -> list[str]:
        """Lines of fenced code without a language, and of indented code; comments are cut off."""
        indented = re.findall(r"(?<=\n\n)((?:    .+\n)+)", FENCE.sub("", self.text))
        lines = [line for block in [*self.blocks("", "bash", "sh"), *indented] for line in block.splitlines()]
        return [line.partition(" #")[0].strip() for line in lines if line.strip()]

    def spans(self) -> list[str]:
        """Code in a line of prose."""
        return re.findall(r"`([^`\n]+)`", self.prose)

    def links(self) -> list[str]:
        return re.findall(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)", self.prose)

    def images(self) -> list[str]:
        return re.findall(r"!\[[^\]]*\]\(([^)\s]+)\)", self.prose)

    def anchors(self) -> set[str]:
        """What a heading is called in an address, as Python-Markdown and GitHub make it."""
        return {slug(title) for title in HEADING.findall(FENCE.sub("", self.text))}

    def section_around(self, image: str) -> str:
        """The text between the headings of the second level around an image."""
        place = self.text.index(f"]({image})")
        begins = self.text.rfind("\n## ", 0, place)
        ends = self.text.find("\n## ", place)
        return self.text[max(begins, 0) : ends if ends >= 0 else None]

    def __str__(self) -> str:
        return str(self.file.relative_to(ROOT))


def slug(title: str) -> str:
    """The anchor of a heading."""
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title)
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", plain).strip().lower())


PAGES = [DocPage(ROOT / "README.md"), *(DocPage(file) for file in sorted((ROOT / "docs").rglob("*.md")))]
