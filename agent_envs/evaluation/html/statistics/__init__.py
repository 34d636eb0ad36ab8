"""Numbers with intervals: rates and means, pass^k and pass@k, paired comparisons, and the t distribution."""
