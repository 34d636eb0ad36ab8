from tests.needs import require

require("[crafter]")
