"""Simulated users play the customer, by rules over a script or by a chat model.

Modules, in reading order:
    scripted: the scripted user, which needs no model; read it first.
    mind, reaction, consent: its memory, its answer to a message, and what it agrees to, in the words of its own want.
    settling, telling: wants that were brought about, facts that it tells.
    persona, wording: manners (patience, typos, insisting) by name, and stock phrases.
    understanding, sentences, agent_words: what an agent's message asks, refuses or reports, by phrases over sentences.
    scenario, prose: the script made of a published task's prose.
    device, device_words: requests about the phone, the calls that carry them out, and the words for them.
    customer: the rules by which the heuristic plays the user, from no more than the prompt.
    chat: a chat model as the user or the agent; guidelines.md and guidelines_tools.md are its prompts.
"""
