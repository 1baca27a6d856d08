"""The parts of .ci/compare: cases, a client, what must hold for answers, and what two servers' answers have in common."""
