"""Retrievers search a corpus: BM25 in memory or on disk, dense vectors, hybrids, search servers, and ablations of retrieval.

Modules, in reading order:
    build: `make_retriever`, which gives a retriever by its name, the ablations, and several retrievers as one; read it first.
    bm25: BM25 in memory by bm25s, also with rank-bm25's Okapi scores (idf); the tokenizer and the stop words.
    okapi_reference: the rank-bm25 package itself, to compare with.
    tantivy_index: BM25 on disk by tantivy, for tens of millions of passages.
    dense: semantic search by a sentence encoder (MiniLM, or any model of the hub) and FAISS.
    static: semantic search by static word vectors without a neural network, and its byte-pair tokenizer.
    embeddings, vectors: the cached vectors of a corpus, and FAISS indexes of them (flat, sq8, ivf, hnsw) with their recall.
    index_files: the cache folders of indexes: manifest, checksums, lock of a build.
    remote, server, wire: the client of a search server over HTTP, a server, and the JSON format of Search-R1 and SkyRL.
"""
