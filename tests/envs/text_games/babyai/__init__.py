from tests.needs import require

require("[babyai]")
