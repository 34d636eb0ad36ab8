"""The formulas of advantages and losses once more: float64, plain loops over rows and tokens, written from the papers.

Nothing is shared with `trainers`: this is what it is held against.
"""

import math

import numpy as np


def mean(values):
    return sum(values) / len(values)


def std(values):
    """With ddof = 1; 0 of a single value."""
    if len(values) < 2:
        return 0.0
    centre = mean(values)
    return math.sqrt(sum((value - centre) ** 2 for value in values) / (len(values) - 1))


def peers(groups, row):
    """The rows of this row's group, itself included."""
    return [other for other in range(len(groups)) if groups[other] == groups[row]]


def group_advantages(rewards, groups, scale, baseline, eps):
    rewards = [float(reward) for reward in rewards]
    out = []
    for row, reward in enumerate(rewards):
        group = [rewards[other] for other in peers(groups, row)]
        if all(value == reward for value in group):
            out.append(0.0)
            continue
        others = [rewards[other] for other in peers(groups, row) if other != row]
        advantage = reward - (mean(group) if baseline == "mean" else mean(others))
        if scale == "group_std":
            advantage /= std(group) + eps
        if scale == "batch_std":
            advantage /= std(rewards) + eps
        out.append(advantage)
    return np.array(out, dtype=np.float64)


def returns_to_go(rewards, gamma_turn):
    """Of one episode: each turn's sum, term by term."""
    length = len(rewards)
    return [sum(gamma_turn ** (s - t) * rewards[s] for s in range(t, length)) for t in range(length)]


def turn_advantages(episodes, groups, gamma_turn, baseline, eps):
    """`episodes`: the turn rewards of each, of their own lengths. Returns a table padded with zeros."""
    width = max(len(episode) for episode in episodes)
    table = np.zeros((len(episodes), width))
    for row, episode in enumerate(episodes):
        same = peers(groups, row)
        if baseline == "per_index":
            scores = []
            for t, reward in enumerate(episode):
                there = [episodes[other][t] for other in same if len(episodes[other]) > t]
                scores.append((reward - mean(there)) / (std(there) + eps))
            table[row, : len(episode)] = returns_to_go(scores, gamma_turn)
            continue
        for t in range(len(episode)):
            others = []
            for other in same:
                if other == row:
                    continue
                if len(episodes[other]) > t:
                    others.append(returns_to_go(episodes[other], gamma_turn)[t])
                elif baseline == "leave_one_out":
                    others.append(0.0)
            own = returns_to_go(episode, gamma_turn)[t]
            table[row, t] = own - (mean(others) if others else 0.0)
            if len(same) == 1:
                table[row, t] = 0.0
    return table


def rows_and_tokens(trained):
    for i in range(trained.shape[0]):
        for t in range(trained.shape[1]):
            if trained[i, t]:
                yield i, t


def log_ratios(logprobs, old_logprobs, trained):
    out = np.zeros(trained.shape)
    for i, t in rows_and_tokens(trained):
        out[i, t] = min(max(logprobs[i, t] - old_logprobs[i, t], -20.0), 20.0)
    return out


def sequence_log_ratios(log_ratio, trained):
    out = np.zeros(trained.shape)
    for i, t in rows_and_tokens(trained):
        own = [log_ratio[i, s] for s in range(trained.shape[1]) if trained[i, s]]
        out[i, t] = mean(own)
    return out


def ppo_clip(ratios, advantages, trained, eps_low, eps_high, dual_clip):
    """The objective is maximised: its negative is the loss."""
    out = np.zeros(trained.shape)
    for i, t in rows_and_tokens(trained):
        ratio, advantage = ratios[i, t], advantages[i, t]
        clipped = min(max(ratio, 1 - eps_low), 1 + eps_high)
        objective = min(ratio * advantage, clipped * advantage)
        if dual_clip is not None and advantage < 0:
            objective = max(objective, dual_clip * advantage)
        out[i, t] = -objective
    return out


def cispo(logprobs, ratios, advantages, trained, eps_low, eps_high):
    out = np.zeros(trained.shape)
    for i, t in rows_and_tokens(trained):
        weight = min(max(ratios[i, t], 1 - eps_low), 1 + eps_high)
        out[i, t] = -weight * advantages[i, t] * logprobs[i, t]
    return out


def reinforce(logprobs, advantages, trained):
    out = np.zeros(trained.shape)
    for i, t in rows_and_tokens(trained):
        out[i, t] = -advantages[i, t] * logprobs[i, t]
    return out


def kl_estimate(logprobs, reference_logprobs, trained, estimator):
    out = np.zeros(trained.shape)
    for i, t in rows_and_tokens(trained):
        d = min(max(reference_logprobs[i, t] - logprobs[i, t], -20.0), 20.0)
        out[i, t] = {"k1": -d, "k2": 0.5 * d * d, "k3": math.exp(d) - 1 - d}[estimator]
    return out


def token_mean(losses, trained, tokens):
    return sum(losses[i, t] for i, t in rows_and_tokens(trained)) / tokens


def sequence_mean(losses, trained, rows):
    total = 0.0
    for i in range(trained.shape[0]):
        own = [losses[i, t] for t in range(trained.shape[1]) if trained[i, t]]
        total += mean(own) if own else 0.0
    return total / rows


def dr_grpo(losses, trained, rows, length):
    return sum(losses[i, t] for i, t in rows_and_tokens(trained)) / (rows * length)


def engine_weights(logprobs, engine_logprobs, trained, correction, cap):
    out = np.zeros(trained.shape)
    for i, t in rows_and_tokens(trained):
        if correction == "off":
            out[i, t] = 1.0
        elif correction == "token_truncate":
            out[i, t] = min(math.exp(logprobs[i, t] - engine_logprobs[i, t]), cap)
        else:
            row = sum(logprobs[i, s] - engine_logprobs[i, s] for s in range(trained.shape[1]) if trained[i, s])
            out[i, t] = math.exp(row) if math.exp(row) <= cap else 0.0
    return out


def engine_metrics(logprobs, engine_logprobs, weights, trained):
    differences, divergences, kept = [], [], []
    for i, t in rows_and_tokens(trained):
        d = logprobs[i, t] - engine_logprobs[i, t]
        differences.append(abs(d))
        divergences.append(math.exp(d) - 1 - d)
        kept.append(weights[i, t])
    return {
        "sampling/sampling_logp_difference/mean": mean(differences) if differences else 0.0,
        "sampling/sampling_logp_difference/max": max(differences, default=0.0),
        "sampling/kl": mean(divergences) if divergences else 0.0,
        "sampling/importance_sampling_ratio/mean": mean(kept) if kept else 0.0,
        "sampling/importance_sampling_ratio/max": max(kept, default=0.0),
    }


def ratio_metrics(log_ratio, ratios, advantages, trained, eps_low, eps_high):
    low, high, divergences = 0, 0, []
    for i, t in rows_and_tokens(trained):
        low += ratios[i, t] < 1 - eps_low and advantages[i, t] < 0
        high += ratios[i, t] > 1 + eps_high and advantages[i, t] > 0
        divergences.append(math.exp(log_ratio[i, t]) - 1 - log_ratio[i, t])
    count = max(len(divergences), 1)
    lows, highs = [], []
    for i in sorted({i for i, _ in rows_and_tokens(trained)}):
        places = [t for row, t in rows_and_tokens(trained) if row == i]
        lows.append(mean([float(ratios[i, t] < 1 - eps_low and advantages[i, t] < 0) for t in places]))
        highs.append(mean([float(ratios[i, t] > 1 + eps_high and advantages[i, t] > 0) for t in places]))
    return {
        "clip_ratio/low_mean": low / count,
        "clip_ratio/high_mean": high / count,
        "clip_ratio/low_min": min(lows, default=1.0),
        "clip_ratio/high_max": max(highs, default=0.0),
        "clip_ratio/region_mean": (low + high) / count,
        "approx_kl": sum(divergences) / count,
    }
