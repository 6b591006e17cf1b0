"""What runs while an album learns: a process of its own, so that searches are answered meanwhile.

    python -m smoothap.server._learning_process ALBUM

It prints lines of JSON: the share that is done, and at the end what came of it in a sentence.
"""

import json
import sys

from smoothap.album import Album, learn


def main() -> None:
    try:
        learning = learn(Album.open(sys.argv[1]), progress=False, told=lambda share: _say(share=share))
    except (OSError, ValueError) as error:
        _say(said=str(error), learnt=False)
    else:
        _say(said=learning.reason, learnt=learning.learnt)


def _say(**values: object) -> None:
    print(json.dumps(values), flush=True)


if __name__ == "__main__":
    main()
