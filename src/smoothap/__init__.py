"""Image retrieval that finds all the right images: the Smooth-AP loss and exact evaluation."""
