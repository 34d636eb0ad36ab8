"""One submission over all families, which all tests here copy from."""

import pytest

from tests.evaluation.verification.all_families import make_submission


@pytest.fixture(scope="session")
def all_families(tmp_path_factory):
    """Return the suite and the folder of an accepted submission; nobody may change it."""
    return make_submission(tmp_path_factory.mktemp("families"), tasks=2)
