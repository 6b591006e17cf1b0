"""What the core's arithmetic rests on: threads, compiled kernels, products in full float32."""

__all__: list[str] = []  # its modules are for the other packages alone
