"""The generators draw databases (worlds) and tasks, one generator a domain: consistent, and solvable by construction.

The policies of the generated domains are `retail.md`, `airline.md`, `telecom.md` and `telecom_solo.md`.

Modules, in reading order:
    source: the task source over a generator: ids, splits, difficulties, worlds; read it first.
    wishes: what the three share: wordings (DOMAIN_words.json), texts for both persons, single wishes, rows of criteria.
    names: people, addresses, e-mails, ids and phone numbers.
    retail_world: the generated shop's database: customers, orders, products.
    retail_tasks, retail_wishes: tasks of the shop by difficulty, and the wishes that they are made of.
    retail_traps: wishes that the policy forbids, or that rest on a condition.
    airline_world: the generated airline's database: flights, customers, reservations.
    airline_tasks, airline_case: tasks of the airline by difficulty; the customer and the trips that they are made of.
    airline_wants: wishes that the policy allows, new bookings and sums.
    airline_traps: wishes that the policy forbids; conditions, comparisons, several trips.
    telecom_world: the generated company's database: customers, lines, plans, devices, bills.
    telecom_tasks, telecom_parts: tasks of the telecom domain by difficulty, and the parts that they are made of.
    telecom_troubles: faults of the phone: service, mobile data, picture messages.
    telecom_wishes: roaming, lines, bills and data; refusals and questions.
"""
