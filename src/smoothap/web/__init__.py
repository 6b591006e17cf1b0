"""The query-by-example page: a server for one album or two, and the page it shows."""
