"""`timerd simulate --engine`: the strategies of the queue model, played by a whole server whose clock is turned."""

from timerd.rehearsal.rehearse import MAX_ENGINE_JOBS, check_engine, rehearse

__all__ = ["MAX_ENGINE_JOBS", "check_engine", "rehearse"]
