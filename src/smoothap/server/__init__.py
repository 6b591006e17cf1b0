"""The page over an album or two, and the one API that it and programs use.

`app.create_app` is the application and `run.run_server` serves it. Nothing is imported here: the process that
decodes photos has to stay small.
"""

LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})  # names by which this machine reaches itself

__all__ = ["LOOPBACK"]
