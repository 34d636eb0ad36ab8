"""Reference trainers (GRPO, EARL, Verlog, VEG, SFT) train language models as policies of environments, one file an algorithm.

Run from a checkout: `python -m trainers.grpo --help`. Read an algorithm's file first: it reads from top to bottom. GRPO, EARL,
Verlog and SFT have loops of their own over shared formulas and machinery; VEG runs GRPO's.

Modules, in reading order:
    grpo: GRPO, group relative policy optimisation over multi-turn episodes, with its training loop; read it first.
    earl: EARL, reinforcement learning over expanded actions (ExpA), with counterfactual policy optimisation (CPO).
    verlog: Verlog, PPO over the turns of long episodes with a critic, two discounts and batches of a fixed number of turns.
    veg: VEG, verbal epsilon-greedy: GRPO with verbal feedback before every turn.
    sft: SFT, supervised fine-tuning by imitation, rejection sampling; the warm start of the other trainers.
    presets/: settings of runs as .toml files, by trainer, and the sweeps; a folder of settings, no package.
    advantages: group-relative advantages from rewards: GRPO, Dr. GRPO, RLOO, leave-one-out, per turn; GAE with two discounts.
    losses: policy losses and ratios: PPO clip, GSPO, CISPO, KL to a reference, entropy bonus, token means, engine correction.
    contracts: token sequences, sampling temperature, top-k and top-p, and the interface of an engine.
    settings, feedback_settings: hyperparameters that trainers share: model, LoRA, optimiser, sampling; verbal feedback.
    command_line: presets, every setting as an option, `--resume`, settings.json and result.json.
    training_run, run_parts: a run around its loop: folder, checkpoints, evaluation, resuming, result; its parts.
    assembling, stacks: model, tokenizer, engine, policies and environments made from settings; wrappers around environments.
    sampling: groups of episodes, played as a rollout batch onto trajectory trees; tasks of a step; token drift.
    mixture: several environments in one run: shares of a step's groups by weight.
    engine_policy: the policy that samples turns from an engine and keeps conversations as tokens.
    lanes: environments that play on in step, which may be forked between turns, or cut at a fixed number of turns.
    fixed_turns: batches of a fixed number of turns, played in lanes that go on from batch to batch.
    turn_texts: examination of a policy by what it writes: valid turns, reasoning, kinds of failure.
    batching: rows of tokens into padded micro-batches within a token budget.
    rescoring: log-probabilities of sampled tokens under the reference model and under the trainer's own.
    episode_sources, demonstrations, guesses: episodes to imitate: solver with flaws, gold answers, own successes, files.
    spread_tasks: tasks from all over a source, where few are taken.
    measuring, examining: success rate with confidence interval, paired gain; validation and test splits of a run.
    spending: cost of feedback models: calls, tokens and US dollars over all resumes.
    trained_agent: a trained policy as an agent for `agent-envs eval`.
    sweeps: tables of a paper as many runs, with several seeds.
    episode_counts: what is counted of test episodes, method by method: EARL's Table 4, Figures 5 and 6.
    expa_head: the expanded action head: output rows and logits of expanded actions beside the language head.
    sorting_result: accuracy, comparisons, swaps and decision trees of a trained sorting policy.
    engines/: generation of tokens with transformers or vLLM: KV cache, prefill, decoding, weight sync.
    tokens/: conversations as tokens, chat templates, control tokens.
    training/: models, LoRA, forward pass, optimiser, checkpoints, metrics, learning curves, several processes.
    expanded/: episodes with expanded actions: player, rollout, token sequences, demonstrations.
    counterfactual/: counterfactual policy optimisation (CPO): positions, interventions, advantages.
    sorting_tree/: the decision tree of a policy that sorts, read from episodes and drawn.
    tiny/: tiny models and tokenizers made from nothing, for tests and CPUs.
"""
