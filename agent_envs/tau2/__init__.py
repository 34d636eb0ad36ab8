"""tau2: dual-control customer service in three domains, equal to the original benchmark on recorded behaviour."""
