"""From due rows to their sinks and back: rounds, credit, confirmations. Knows no protocol of the wire."""
