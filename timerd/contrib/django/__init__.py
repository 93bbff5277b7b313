"""An app of Django, `timerd.contrib.django` in INSTALLED_APPS: a migration that makes the outbox, `outbox.schedule` and
its siblings, and the management command `timerd_outbox`.
"""
