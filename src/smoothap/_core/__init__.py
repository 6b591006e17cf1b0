"""Devices, precision, threads, files, progress and processes under torchrun: what the other packages rest on."""

__all__: list[str] = []  # its modules are for the other packages alone
