"""What proposes the photos nearest to a query: codes, FAISS, or a Milvus server."""
