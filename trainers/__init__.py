"""Reference trainers (GRPO, EARL, ARPO, Verlog, VEG, SFT) train language models as policies of environments.

Run from a checkout: `python -m trainers.grpo --help`. Read an algorithm's file first: it reads from top to bottom. GRPO, EARL,
Verlog and SFT have loops of their own over shared formulas and machinery; VEG and ARPO run GRPO's update.

Modules, in reading order:
    grpo: GRPO, group relative policy optimisation over multi-turn episodes, with its training loop; read it first.
    earl: EARL, reinforcement learning over expanded actions (ExpA), with counterfactual policy optimisation (CPO).
    verlog: Verlog, PPO over the turns of long episodes with a critic, two discounts and batches of a fixed number of turns.
    veg: VEG, verbal epsilon-greedy: GRPO with verbal feedback before every turn.
    arpo: ARPO, agentic reinforced policy optimisation: GRPO on rollouts that branch after a tool's result.
    sft: SFT, supervised fine-tuning by imitation, rejection sampling; the warm start of the other trainers.
    presets/: settings of runs as .toml files, by trainer, and the sweeps that `benchmarks.sweeps` runs; no package.
    advantages: group-relative advantages from rewards: GRPO, Dr. GRPO, RLOO, leave-one-out, per turn; GAE with two discounts.
    losses: policy losses and ratios: PPO clip, GSPO, CISPO, KL to a reference, entropy bonus, token means, engine correction.
    contracts: token sequences, sampling temperature, top-k and top-p, and the interface of an engine.
    settings: hyperparameters that trainers share: model, LoRA, optimiser, sampling, evaluation, log; what all have that play.
    command_line: presets, every setting as an option, `--resume`, settings.json and result.json.
    run, run_parts: a run around its loop: folder, checkpoints, resuming, result; what it is made of: model, engine, players.
    environments: environments and mixtures of them made from settings, wrappers around them, which tasks are played.
    episode_agents: agents that are made anew for each episode: solvers, and players that err on purpose.
    sampling: groups of episodes, planned over a mixture and played as a rollout batch onto trajectory trees; token drift.
    evaluation: success rate with confidence interval, paired gain; validation and test splits; what a policy writes.
    expanded_actions: how code that algorithms share reaches the parts of environments that have more actions than text.
    engine_policy: the policy that samples turns from an engine and keeps conversations as tokens.
    fixed_turns: batches of a fixed number of turns, played in lockstep; lanes go on from batch to batch.
    batching: rows of tokens into padded micro-batches within a token budget.
    imitation/: the warm start, and the episodes that it and SFT imitate: solver with flaws, gold answers, own successes.
    costs: what a run pays to chat models: calls, tokens and US dollars over all resumes, and limits on them.
    trained_agent: a trained policy as an agent for `agent-envs eval`.
    engines/: generation of tokens with transformers or vLLM: KV cache, prefill, decoding, weight sync.
    tokens/: conversations as tokens, chat templates, control tokens.
    training/: models, LoRA, forward pass, optimiser, checkpoints, metrics, several processes.
    earl_parts/: EARL's own: expanded actions and their head, counterfactuals, figures of sorting policies.
    veg_parts: VEG's own: settings of verbal feedback.
    verlog_parts: Verlog's own: the check of the critic's warm-up.
    arpo_parts: ARPO's own: rules that say where a rollout branches, trees of rollouts, credit of their leaves.
    figures/: learning curves, and the decision trees of sorting policies.
    tiny/: tiny models and tokenizers made from nothing, and an environment for them, for tests and CPUs.
"""
