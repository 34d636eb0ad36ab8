"""The decision tree of a policy that sorts: read from its episodes (`decision_tree`), and drawn (`drawing`)."""
