"""What the core's arithmetic rests on: threads, compiled kernels, products in full float32."""
