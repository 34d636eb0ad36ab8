from tests.needs import require

require("[sandbox]")
