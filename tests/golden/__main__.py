"""Record goldens again: `python -m tests.golden` all of them, `python -m tests.golden Tau2Retail-v0 Sort-v0` these."""

import argparse
import os

from tests.golden import TABLE, path_of, record

parser = argparse.ArgumentParser(prog="python -m tests.golden", description=__doc__)
parser.add_argument(
    "ids", nargs="*", metavar="ID", help="as in the names of the files, Sort-v0; all where none is named"
)
wanted = set(parser.parse_args().ids)
rows = {path_of(row.id).stem: row for row in TABLE}
if strangers := wanted - rows.keys():
    parser.error(f"no golden of {', '.join(sorted(strangers))}; there are {', '.join(rows)}")
for name, row in rows.items():
    if not wanted or name in wanted:
        record(row, with_data=bool(os.environ.get("AGENT_ENVS_DATA")))
        print(f"recorded {path_of(row.id)}")
