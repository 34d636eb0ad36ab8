"""Retrievers: BM25 over any corpus, and the ablations that tell retrieval from reasoning."""
