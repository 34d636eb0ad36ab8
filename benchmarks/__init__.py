"""Benchmarks measure speed, memory, robustness and learning, where there is a peer as ratios to it in the same run.

Modules, in reading order:
    goals, calibration: the promised speeds in one table, met or missed, as ratios to peers and to a small load; exit code 1
    where one that was met is lost.
    growth, turn_cost: how cost grows with turns, passages, episodes, concurrency, groups and trees.
    open_episodes: 10,000 episodes open at one moment.
    steps, search_steps, babyai_steps: environment steps per CPU-second and snapshot costs, beside GEM, SkyRL-gym and minigrid.
    runner, agents: throughput and cost of evaluations beside inspect_ai and lm-eval; the scripted agents.
    kills: evaluations killed and resumed.
    pool, ray_actors: memory, CPU a turn and bytes of many open episodes; actors of Ray, with a model of what they take.
    serving: the environment server beside OpenEnv's own: CPU a turn and memory a session.
    generation: generated tasks per CPU-second beside reasoning-gym.
    retrieval, scaling, scaling_chart: BM25 beside rank-bm25; indexes at a million passages.
    given_vectors: vectors of a corpus that were computed elsewhere, put where dense retrievers look for their own.
    sandbox, sandbox_probes: latency, abuse probes and kills of code sandboxes.
    tau2_users, tau2_null_policy: tau2's agents with simulated users, and none.
    tau2_user_checks: whether a simulated user closes too early, or does or claims on its phone what nobody asked for.
    make_qa, qa_candidates: a legal benchmark made from a corpus by a chat model; qa_propose.md, qa_check.md.
    arpo_bound, arpo_learn: what branching can save; ARPO beside its controls and GRPO at equal tool calls.
    baselines: the known order of procedures, with a scripted reader in place of a model, and planted defects.
    naive_rag, legal_learn: an agent that reads what one search shows; GRPO at 2, 4 and 10 free turns.
    reading_load: how much of `trainers/` a reader of each algorithm meets: modules, lines, parts.
    coverage, coverage_cases: simulated coverage of confidence intervals and power of the paired test.
    grpo_step, grpo_world, gpu_step: the cost of a GRPO step beside TRL, on a CPU; sampling and steps of real shapes on a GPU.
    small_calc_bench: `trainers/SmallCalcBench-v0` under the name of its module that earlier runs hold.
    learn, earl_learn, training_runs: GRPO and EARL on tiny presets over seeds; runs of trainers as processes.
    veg_learn, veg_chart, veg_episodes, veg_failures, veg_price: VEG beside GRPO: charts, failures, cost of feedback.
    real_curves, real_leads: the papers' claims on a small pretrained model, by a fixed plan of runs of minutes.
    verlog_learn: Verlog beside GRPO at equal environment steps.
    episode_counts: test episodes by method: EARL's Table 4, Figures 5 and 6.
    tree_drawing: pictures of the decision trees that a sorting policy's run wrote.
    sweeps: tables of a paper as many runs of trainers, with several seeds.
    chat_templates: what a chat template changes in conversations that grow.
    sorting_figures, sorting_plays: what sorting algorithms need and earn, exactly.
    suites: the tasks of each suite that no two built-in agents tell apart, saturation, headroom.
    demo, demo_page, demo_log, demo_model, demo_board: `make demo`: steps, page, log with a budget, first model, a board.
    first_curve: the picture of the first real model that learnt.
    first_turns: valid turns of a small language model by the prompt alone, with and without worked turns.
    reader_agents: baselines with the scripted reader, by names that an evaluation takes.
    provider_faults, provider_reports: public reports of what providers do, acted by local servers, with right controls.
    blind_replays: how far the best of some random plays of each task comes, played back.
    peers/: scripts that run in a peer's own virtual environment.
"""
