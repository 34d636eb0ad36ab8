"""Record every golden again."""

import os

from tests.golden import TABLE, path_of, record

for row in TABLE:
    record(row, with_data=bool(os.environ.get("AGENT_ENVS_DATA")))
    print(f"recorded {path_of(row.id)}")
