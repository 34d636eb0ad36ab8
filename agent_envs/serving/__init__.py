"""The environment server keeps the episodes of many clients in pools; `Remote` is its client, an environment like any other.

Modules, in reading order:
    wire: what messages say: actions, observations, schemas, refusals.
    scheduling: the threads that step, and the queue of a full server.
    seats: connections, sessions, and how far each episode is.
    sessions: open episodes that step in place; every message is answered here.
    snapshots: forks, and moments that the server keeps.
    server: sockets: HTTP, WebSockets, tokens, limits of time and size.
    remote: the client, `gym.make("agent_envs:agent_envs/Remote-v0", url=...)`.
"""
