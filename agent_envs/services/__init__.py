"""Services are what the package calls outside its process: chat models, LLM judges, HTTP; calls are retried and recorded.

Modules, in reading order:
    recording: `ExternalPort` and `Recording`: retries with backoff, deadlines, recorded answers and their replay.
    chat/: chat models: OpenAI, Anthropic, local servers, scripts; prices of tokens and the cost limit.
    run_services: `Services`, what a run hands to its environments: the recording, and who counts the cost of feedback.
    judges: `ModelJudge` (LLM as a judge), which decides whether an answer is right.
    judge_prompts/: the versioned prompts of `ModelJudge`, as `NAME-VERSION.md`.
    http/: the HTTP client: deadline, cap on bytes, `Retry-After`, proxies, TLS.
"""
