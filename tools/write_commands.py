"""Writes docs/commands.md, every command with its options, from the command line itself.

python tools/write_commands.py
"""

import sys
from pathlib import Path

from smoothap.cli import app

PAGE = Path(__file__).parents[1] / "docs" / "commands.md"
HEADING = """# All commands

Every command with its arguments, options and defaults, as `smoothap COMMAND --help` prints them.
[The command line](command_line.md) has what they share. The page is made by `python tools/write_commands.py`.

"""


def page() -> str:
    """The whole page as Markdown, without the table of contents, which the site has, and shell completion."""
    started, sys.argv = sys.argv, ["smoothap.py"]  # of which a part would be in the usage of nested commands
    try:
        text = app.generate_docs(output_format="markdown")
    finally:
        sys.argv = started
    listed = text[text.index("**Photos**:") : text.index("## smoothap --install-completion")]
    return HEADING + listed + text[text.index("## smoothap photos") :].rstrip() + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(f"{PAGE} is up to date.")
