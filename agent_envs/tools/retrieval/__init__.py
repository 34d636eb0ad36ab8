"""Retrievers: BM25 in memory or on disk, search servers, and the ablations that tell retrieval from reasoning."""
