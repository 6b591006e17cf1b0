"""The command line: arguments only. Each command lives in its own file and imports what it needs when it runs."""

from importlib.metadata import version

from cyclopts import App

app = App(
    name="smoothap",
    help="Image retrieval that finds all the right images: train with Smooth-AP, evaluate exactly, search.",
    version=lambda: version("smoothap"),
)
app.command("smoothap.cli.demo:demo", help="Train on emoji for a few minutes and show the difference, in pictures.")
app.command("smoothap.cli.train:train", help="Fine-tune a network with Smooth-AP, from one command.")
app.command("smoothap.cli.evaluate:evaluate", help="Exact retrieval figures of embeddings over the full ranking.")
app.command("smoothap.cli.data:app", name="data", help="Count, check and show sets of images.")
app.command("smoothap.cli.export:export", help="Write a trained model as one ONNX file, checked against torch.")
app.command("smoothap.cli.index:index", help="Make an album of a folder of photos, or bring it up to date.")
app.command("smoothap.cli.search:search", help="Find the photos of an album that look like a photo.")
app.command("smoothap.cli.duplicates:duplicates", help="List photos that an album has twice, exactly or nearly.")
app.command(
    "smoothap.cli.serve:serve", help="Open an album as a page: give a photo, find all the others; or compare two."
)
