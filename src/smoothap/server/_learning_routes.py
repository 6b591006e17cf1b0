"""The addresses for learning: begun, followed and undone, each for one album.

Whatever changes something is let in by `server/_gate.py` only from our own page, and with the token where there is one.
"""

from pathlib import Path

from fastapi import FastAPI
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException

from smoothap.album.learning import FEWEST_COLLECTIONS, FEWEST_PHOTOS, collections_enough, too_few
from smoothap.server._album_choice import ChosenAlbum
from smoothap.server._learning_job import LearningJob
from smoothap.server._served_album import ServedAlbum
from smoothap.server.limits import WorkQueue

_BASE = "/api/albums/{album}/learning"


class LearningInfo(BaseModel):
    """What an album has learnt, and what it is learning."""

    learnt: bool = Field(description="Whether searches are in what it learnt.")
    collections: int = Field(description="Collections with photos enough to learn from.")
    wanted: int = Field(default=FEWEST_COLLECTIONS, description="So many of them are needed.")
    photos: int = Field(default=FEWEST_PHOTOS, description="So many photos of each are needed.")
    running: bool = Field(description="Whether it is learning now.")
    share: float = Field(description="Of that, the share that is done, from 0 to 1.")
    said: str | None = Field(description="What came of the last learning here, in words.")


def add_learning_routes(app: FastAPI, queue: WorkQueue, job: LearningJob) -> None:
    """Add the addresses of learning."""

    def described(served: ServedAlbum, learnt: bool | None = None) -> LearningInfo:
        state = job.state(_folder(served))
        return LearningInfo(
            learnt=served.album.learnt is not None if learnt is None else learnt,
            collections=collections_enough(served.album),
            running=state is not None and state.said is None,
            share=0.0 if state is None else state.share,
            said=None if state is None else state.said,
        )

    @app.get(_BASE)
    async def learning(served: ChosenAlbum) -> LearningInfo:
        """What the album has learnt from its collections, and how far it is if it is learning."""
        return await queue.run(described, served)

    @app.post(_BASE)
    async def learn(served: ChosenAlbum) -> LearningInfo:
        """Begin to learn from the collections, which takes seconds; one album learns at a time."""

        def begin() -> LearningInfo:
            folder = _folder(served)
            if (collections := collections_enough(served.album)) < FEWEST_COLLECTIONS:
                raise HTTPException(409, too_few(collections))
            job.start(folder)
            return described(served)

        return await queue.run(begin)

    @app.delete(_BASE)
    async def undo(served: ChosenAlbum) -> LearningInfo:
        """Search in the model's own vectors again; the collections stay."""

        def forget() -> LearningInfo:
            if served.album.learnt is None:
                raise HTTPException(409, "This album has learnt nothing that could be undone.")
            served.album.reopened().unlearn()
            job.forget(_folder(served))
            return described(served, learnt=False)

        return await queue.run(forget)


def _folder(served: ServedAlbum) -> Path:
    if served.album.folder is None:
        raise HTTPException(409, "This album does not be in a folder here, and learns nothing.")
    return served.album.folder
