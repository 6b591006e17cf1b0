"""Showing a photo in the file manager of this computer; only for a page that nobody else sees."""

import shutil
import subprocess
import sys
from pathlib import Path


def reveal(photo: Path) -> None:
    """Open the folder that a photo is in, with the photo chosen where the system can do that."""
    place = photo.absolute()
    if not place.is_file():
        raise ValueError(f"{place.name} is not in its folder any more.")
    if sys.platform == "darwin":
        command = ["open", "-R", str(place)]
    elif sys.platform == "win32":
        command = ["explorer", f"/select,{place}"]
    else:
        command = ["xdg-open", str(place.parent)]
    if shutil.which(command[0]) is None:
        raise ValueError(f"This computer has no program to show folders with ({command[0]}): look in {place.parent}.")
    subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
