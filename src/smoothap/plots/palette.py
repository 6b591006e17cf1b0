"""The colours of figures and pages: three that people who do not see red and green apart can still tell apart."""

LIGHT = {
    "blue": "#0072b2",  # a query, and what was before
    "green": "#007f65",  # a right image, and what came after
    "red": "#bf4508",  # a wrong image
    "ink": "#1c2430",
    "soft": "#5a6575",
    "line": "#d9dee5",
    "card": "#ffffff",
    "paper": "#f5f6f8",
}
DARK = {
    "blue": "#5ab4ea",
    "green": "#35c79f",
    "red": "#ff8548",
    "ink": "#e8ebf0",
    "soft": "#a3adba",
    "line": "#39424e",
    "card": "#1d232b",
    "paper": "#12161b",
}
