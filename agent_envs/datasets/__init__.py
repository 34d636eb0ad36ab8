"""Where tasks and documents come from: generators that families share, and readers for published data sets."""
