from tests.needs import require

require("[train]")
