"""Record goldens: `make golden` all of them, `make golden ID=Sort` one, `python -m tests.golden Tau2Retail Sort-v0` these."""

import argparse
import os

from agent_envs.base.errors import UsageError
from tests.golden import TABLE, path_of, record, row_of

parser = argparse.ArgumentParser(prog="python -m tests.golden", description=__doc__)
parser.add_argument(
    "ids", nargs="*", metavar="ID", help="with or without its version, Sort or Sort-v0; all where none is named"
)
try:
    wanted = [row_of(name) for name in parser.parse_args().ids]
except UsageError as error:
    parser.error(str(error))
for row in wanted or TABLE:
    record(row, with_data=bool(os.environ.get("AGENT_ENVS_DATA")))
    print(f"recorded {path_of(row.id)}")
