"""An app of Django, `timerd.contrib.django` in INSTALLED_APPS: a migration that makes the outbox, `outbox.schedule` and
its siblings, a backend of Django's own tasks, and the management commands `timerd_outbox` and `timerd_worker`.
"""
