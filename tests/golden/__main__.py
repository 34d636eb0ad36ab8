"""Record goldens: `make golden` all of them, `make golden ID=Sort` one, `python -m tests.golden Tau2Retail Sort-v0` these.

At a release `python -m tests.golden --promise` adds what is recorded to the promises; what is promised is never overwritten.
"""

import argparse
import os
import sys

from agent_envs.base.errors import UsageError
from tests.golden import TABLE, path_of, record, row_of, write_promises

parser = argparse.ArgumentParser(prog="python -m tests.golden", description=__doc__)
parser.add_argument(
    "ids", nargs="*", metavar="ID", help="with or without its version, Sort or Sort-v0; all where none is named"
)
parser.add_argument("--promise", action="store_true", help="promise what is recorded and not promised yet")
options = parser.parse_args()
if options.promise:
    print(f"{write_promises()} replays are promised")
    sys.exit()
try:
    for row in [row_of(name) for name in options.ids] or TABLE:
        record(row, with_data=bool(os.environ.get("AGENT_ENVS_DATA")))
        print(f"recorded {path_of(row.id)}")
except UsageError as error:
    sys.exit(f"python -m tests.golden: {error}")
