"""The oracle: a plain-Python, event-by-event simulation the engine is compared with. It shares no code with jaxsim."""
