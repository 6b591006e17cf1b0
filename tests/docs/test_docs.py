"""What README and docs/ name is there: links, anchors, commands, options, extras, and a command for each figure."""

import re
import shlex
from io import StringIO

import pytest
from doc_pages import PAGES, ROOT, DocPage
from rich.console import Console
from size import GENERATED, LIMIT, words

from smoothap.cli import app

tomllib = pytest.importorskip("tomllib")  # of Python 3.11
ids = pytest.mark.parametrize("page", PAGES, ids=str)


def target_of(page, link):
    """The file and the anchor that a link inside the project leads to."""
    path, _, anchor = link.partition("#")
    return (page.file.parent / path).resolve() if path else page.file, anchor


def wrong_links(page):
    wrong = []
    for link in [*page.links(), *page.images()]:
        if re.match(r"[a-z]+:", link):
            continue
        file, anchor = target_of(page, link)
        if not file.is_file() or (anchor and anchor not in DocPage(file).anchors()):
            wrong.append(link)
        elif page.file.name != "README.md" and ROOT / "docs" not in file.parents:
            wrong.append(f"{link} leaves docs/, which the site does not have")
    return wrong


def arguments_of(line):
    """The arguments of `smoothap ...` or `... -m smoothap ...`; None where the line calls something else."""
    words = shlex.split(line.replace("...", ""))
    while words and re.match(r"[A-Z_]+=", words[0]):
        words = words[1:]
    if words[:1] == ["smoothap"]:
        return words[1:]
    if "smoothap" in words and words[words.index("smoothap") - 1] == "-m":
        return words[words.index("smoothap") + 1 :]
    return None


def parse(arguments):
    """Bind the arguments to the command without running it; anything wrong is raised."""
    return app.parse_args(arguments, exit_on_error=False, print_error=False)[1].arguments


def commands_of(page):
    return [arguments for line in page.shell_lines() if (arguments := arguments_of(line)) is not None]


@ids
def test_every_link_and_anchor_inside_the_project_leads_somewhere(page):
    assert not wrong_links(page)


@ids
def test_every_command_in_a_block_of_code_is_taken_by_the_command_line(page):
    for arguments in commands_of(page):
        parse(arguments)


@ids
def test_every_command_and_option_in_a_sentence_exists(page):
    for span in page.spans():
        arguments = arguments_of(span) if span.startswith(("smoothap ", "torchrun ")) else None
        if not arguments or arguments[0] in ("COMMAND", "--help"):
            continue
        chain, _, rest = app.parse_commands(arguments)
        assert chain or arguments[0].startswith("--"), f"{span}: there is no such command"
        known = set(re.findall(r"--[a-z][a-z-]*", help_of(chain)))
        assert {word.partition("=")[0] for word in rest if word.startswith("--")} <= known, span


def help_of(chain):
    """What `smoothap COMMAND --help` prints."""
    console = Console(file=StringIO(), width=240)
    app.help_print(list(chain), console=console)
    return console.file.getvalue()


@ids
def test_every_script_and_its_options_exist(page):
    for line in [*page.shell_lines(), *page.spans()]:
        script = re.match(r"python ((?:benchmarks|tests|tools)/\S+\.py)", line)
        if script:
            source = (ROOT / script[1]).read_text(encoding="utf-8")
            assert [option for option in re.findall(r" (--[a-z0-9-]+)", line) if f'"{option}"' not in source] == []


@ids
def test_every_make_command_and_extra_exists(page):
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    for line in [*page.shell_lines(), *page.spans()]:
        if called := re.match(r"make ([a-z-]+)", line):
            assert f"\n{called[1]}:" in makefile, line
        for names in re.findall(r"(?:smoothap|'\.)\[([\w,]+)\]", line):
            assert set(names.split(",")) <= set(extras), line


def test_no_page_installs_from_a_package_index_that_does_not_have_the_package():
    for page in PAGES:
        assert not re.findall(r"pip install '?smoothap", page.text), page


def test_the_pages_written_by_hand_are_short():
    written = [page for page in PAGES if str(page) not in GENERATED]
    assert sum(words(page.file) for page in written) <= LIMIT
    assert len(PAGES[0].text.splitlines()) <= 120


def test_every_page_is_in_the_site_s_menu():
    site = (ROOT / "zensical.toml").read_text(encoding="utf-8")
    listed = re.findall(r'= "([\w/]+\.md)"', site)
    assert sorted(listed) == sorted(str(page.file.relative_to(ROOT / "docs")) for page in PAGES[1:])
