"""The request-level state machine of one lane: state, rounds, KV blocks, stretches, records and the policies."""
