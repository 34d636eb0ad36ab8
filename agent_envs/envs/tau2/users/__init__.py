"""Simulated users play the customer, by rules over a script or by a chat model.

Modules, in reading order:
    scripted: the scripted user, which needs no model; read it first.
    mind, reaction, settling, telling: its memory, its answer to a message, wants that are fulfilled, facts that it tells.
    persona, wording: manners (patience, typos, insisting) by name, and stock phrases.
    understanding, sentences, agent_words: what an agent's message asks or reports, by phrases over sentences.
    deciding, comparing: yes, no or a question to what is proposed: its acts and its values, held against those of the wants.
    aims, acts, shelf: what a want and a proposal are about doing; what the shop sells, and what its options are called.
    scenario, prose: the script made of a published task's prose.
    device, device_words, device_terms: requests about the phone, the calls that carry them out, and the words for them.
    customer: the rules by which the heuristic plays the user, from no more than the prompt.
    chat: a chat model as the user or the agent; guidelines.md and guidelines_tools.md are its prompts.
"""
