"""A rollout plays episodes of a policy in an environment: one alone, or many with a journal that a killed run resumes from.

Modules, in reading order:
    policy: the `Policy` protocol, its traits, the conversation that it reads, requests and replies, and the built-in agents.
    episode_runner: one episode turn by turn, or to its end, its replay from a trajectory, and `solve` by the oracle policy.
    lockstep: environments that step together, one call of the policy a round; forks, retries after infrastructure errors.
    episode_pool: many episodes open at once, as snapshots on few environments, under keys; bytes to save or move one.
    reply_log: a paid model's replies, kept until their episode ends, so that no attempt, kill or resume asks for one again.
    run_many: many episodes: concurrency, a spent budget, the rows of journal.jsonl, resuming under the same settings.
    ray_backend, ray_hosts: `Actors` of Ray that step the environments of lanes, or play whole episodes, on many machines.
    typed: `TypedActions`, what a person types (names, numbers, forms, plain text) as actions of any id.
    chat_policy: a chat model as the policy; its temperature and tokens are `ChatOptions` of `services/chat/model`.
"""
