from tests.needs import require

require("[serve]")
