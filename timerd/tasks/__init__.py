"""Typed tasks: a function with annotated arguments is scheduled by its arguments, which travel as JSON.

It needs pydantic, which checks the arguments on both sides: `pip install pydantic`.
"""

from timerd.tasks.registry import Tasks
from timerd.tasks.typed import TypedTask

__all__ = ["Tasks", "TypedTask"]
