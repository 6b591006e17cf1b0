"""The command line: arguments only. Each command lives in its own file and imports what it needs when it runs."""

from cyclopts import App, Group

__all__ = ["app"]


def _version() -> str:
    from importlib.metadata import version  # a quarter of the start-up, and the help does not need it

    return version("smoothap")


app = App(
    name="smoothap",
    help="Image retrieval that finds all the right images: train with Smooth-AP, evaluate exactly, search.",
    help_format="plaintext",
    help_epilogue="""Examples:

    smoothap demo
    smoothap photos PHOTOS
    smoothap train --data folder:PHOTOS --out runs/mine
    smoothap evaluate --model runs/mine/model --data folder:PHOTOS
    smoothap index PHOTOS --model runs/mine/model --out ALBUM
    smoothap search ALBUM photo.jpg
    smoothap --install-completion      (shell completion; then open a new shell)

Every command explains itself: smoothap COMMAND --help
Exit codes: 0 done, 1 an error that the message explains, 2 wrong arguments,
3 a training that did not improve the network or the album, 130 interrupted.""",
    version=_version,
)
app.register_install_completion_command(help="Install completion for bash, zsh, fish or PowerShell.", help_epilogue="")


# What the help says of a command before its file is imported, and how the command is typed.
_COMMANDS: dict[str, dict[str, tuple[str, ...]]] = {
    "Photos": {
        "photos": (
            "Search in a folder of photos: make an album of it, or bring it up to date, and open it as a page.",
            "smoothap photos PHOTOS",
        ),
        "index": (
            "Make an album of a folder of photos, or bring it up to date.",
            "smoothap index PHOTOS --out ALBUM",
            "smoothap index PHOTOS --model runs/mine/model --out ALBUM",
            "smoothap index PHOTOS --out ALBUM --shard 3/64",
        ),
        "search": (
            "Find the photos of an album that look like a photo.",
            "smoothap search ALBUM photo.jpg -k 20",
            "smoothap search ALBUM photo.jpg --box 40,30,200,150 --html found.html",
            "smoothap search ALBUM photo.jpg --recall 0.95 --json",
            "smoothap search ALBUM photo.jpg --folder holidays --since 2023-07 --camera iphone",
            "smoothap search ALBUM photo.jpg --person",
        ),
        "serve": (
            "Open an album as a page: give a photo, find all the others; or compare two.",
            "smoothap serve ALBUM",
            "smoothap serve runs/demo/before runs/demo/after",
        ),
        "album": ("Look after an album: duplicates, collections, learning, Milvus.",),
    },
    "Training": {
        "train": (
            "Fine-tune a network with Smooth-AP, and compare it before and after on classes it never saw.",
            "smoothap train --data folder:PHOTOS --out runs/mine",
            "smoothap train --data folder:PHOTOS --out runs/mine --resume",
            "smoothap train recipe:sop-384 --data PATH --out runs/sop-384",
        ),
        "evaluate": (
            "Exact retrieval metrics over the full ranking, of a model or of embeddings in files.",
            "smoothap evaluate --model runs/mine/model --data folder:PHOTOS",
            "smoothap evaluate --embeddings vectors.npy --labels labels.npy --json",
        ),
        "compare": (
            "Train the methods of the paper alike, and put them in one table.",
            "smoothap compare --data emoji --methods smooth-ap,fast-ap --seeds 3 --steps 60",
            "smoothap compare --data folder:PHOTOS --out runs/compare",
        ),
        "export": (
            "Write a trained model as one ONNX file, checked against torch.",
            "smoothap export runs/mine/model --out model.onnx",
        ),
        "data": ("Count, check and show sets of images.",),
    },
    "Paper": {
        "paper": ("The paper's analyses on your model and images, with figures.",),
        "recipes": (
            "List the paper's experiments that can be trained by name, with their results; or print one to change.",
            "smoothap recipes",
            "smoothap recipes sop-384 > mine.py",
        ),
    },
    "Maintenance": {
        "doctor": (
            "What is installed and found here: versions, devices, threads, extras, weights, caches.",
            "smoothap doctor",
            "smoothap doctor --check",
            "smoothap doctor --json",
        ),
        "demo": (
            "Train on emoji for a few minutes and show the difference, in pictures.",
            "smoothap demo --minutes 5 --out runs/demo",
        ),
    },
}
for _title, _members in _COMMANDS.items():
    _group = Group.create_ordered(_title)
    for _name, (_help, *_examples) in _members.items():
        _lines = ["Examples:" if len(_examples) > 1 else "Example:", "", *(f"    {line}" for line in _examples)]
        if _examples:
            app.command(f"smoothap.cli.{_name}:{_name}", help=_help, help_epilogue="\n".join(_lines), group=_group)
        else:  # commands below it, which have examples of their own
            app.command(f"smoothap.cli.{_name}:app", name=_name, help=_help, group=_group)
