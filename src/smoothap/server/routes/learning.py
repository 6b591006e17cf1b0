"""The addresses for learning: begun, followed and undone, each for one album.

Whatever changes something is let in by `server/auth.py` only from our own page, and with the token where there is one.
"""

from pathlib import Path

from fastapi import APIRouter
from starlette.exceptions import HTTPException

from smoothap.album.learning import FEWEST_COLLECTIONS, collections_enough, too_few
from smoothap.server import schemas
from smoothap.server.dependencies import ChosenAlbum, Server
from smoothap.server.learning import LearningJob
from smoothap.server.served_album import ServedAlbum

router = APIRouter(prefix="/albums/{album}/learning", tags=["learning"])


@router.get("")
def learning(server: Server, served: ChosenAlbum) -> schemas.LearningInfo:
    """What the album has learnt from its collections, and how far it is if it is learning."""
    return _described(server.learning, served)


@router.post("")
def learn(server: Server, served: ChosenAlbum) -> schemas.LearningInfo:
    """Begin to learn from the collections, which takes seconds; one album learns at a time."""
    folder = _folder(served)
    if (collections := collections_enough(served.album)) < FEWEST_COLLECTIONS:
        raise HTTPException(409, too_few(collections))
    server.learning.start(folder)
    return _described(server.learning, served)


@router.delete("")
def undo(server: Server, served: ChosenAlbum) -> schemas.LearningInfo:
    """Search in the model's own vectors again; the collections stay."""
    if served.album.learnt is None:
        raise HTTPException(409, "This album has learnt nothing that could be undone.")
    served.album.reopened().unlearn()
    server.learning.forget(_folder(served))
    return _described(server.learning, served, learnt=False)


def _described(job: LearningJob, served: ServedAlbum, learnt: bool | None = None) -> schemas.LearningInfo:
    state = job.state(_folder(served))
    return schemas.LearningInfo(
        learnt=served.album.learnt is not None if learnt is None else learnt,
        collections=collections_enough(served.album),
        running=state is not None and state.said is None,
        share=0.0 if state is None else state.share,
        said=None if state is None else state.said,
    )


def _folder(served: ServedAlbum) -> Path:
    if served.album.folder is None:
        raise HTTPException(409, "This album is not in a folder here, and learns nothing.")
    return served.album.folder
