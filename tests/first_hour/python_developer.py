"""A Python developer with FastAPI or Django, who has Celery's eta: the README, the tutorial, an example, the page of
Celery."""

from __future__ import annotations

import os
import shlex
from importlib.util import find_spec

from tests.docs import blocks
from tests.engines.finding import NotFound, own_redis
from tests.first_hour import pages
from tests.first_hour.desk import Desk

README, TUTORIAL, CELERY = "README.md", "docs/use/tutorial.md", "docs/use/celery.md"
DJANGO = "examples/django_reminders"


def spend(desk: Desk) -> None:
    with desk.step("README: install"):
        text = pages.section(README, "Sixty seconds with Python")
        start, programs = pages.typed(text)
        desk.install(start)
    with desk.step("README: sixty seconds"):
        [dev] = pages.commands(start)
        desk.start(dev).shows("timerd is ready")
        _sixty_seconds(desk, pages.files(text), programs)
    with desk.step("tutorial: handler, worker, tests"):
        _tutorial(desk)
    _with_fastapi(desk, "tutorial: FastAPI")
    _with_django(desk, "example: Django")
    _with_celery(desk, "Celery: eta, countdown, revoke")


def _sixty_seconds(desk: Desk, files: dict[str, str], programs: str) -> None:
    desk.save(files)
    worker, caller = pages.commands(programs)
    working = desk.start(worker)
    assert "safe on disk, fires at" in desk.type(caller)
    working.shows("call Ada (attempt 1")
    assert "tea is ready (attempt 1" in working.shown()
    working.end()


def _tutorial(desk: Desk) -> None:
    desk.save(pages.files(blocks.read(TUTORIAL)))
    [worker] = pages.typed(pages.section(TUTORIAL, "The worker"))
    [tests] = pages.typed(pages.section(TUTORIAL, "Tests with a clock that you turn"))
    desk.install(tests)
    [run_tests] = pages.commands(tests)
    assert "3 passed" in desk.type(run_tests)
    desk.start(worker).shows("serves reminders")


def _with_fastapi(desk: Desk, step: str) -> None:
    if _is_left_out(desk, step, "uvicorn"):
        return
    with desk.step(step):
        [typed] = pages.typed(pages.section(TUTORIAL, "FastAPI"))
        desk.install(typed)
        serve, book, cancel = pages.commands(typed)
        serving = desk.start(serve, given={"UVICORN_PORT": str(desk.ports[8000])})
        serving.shows("startup complete")
        assert '{"reminder":"2031-01-01T16:00:00' in desk.type(book)
        assert '{"no_reminder_comes":true}' in desk.type(cancel)
        serving.end()


def _with_django(desk: Desk, step: str) -> None:
    """Its files are copied, for the port in them."""
    if _is_left_out(desk, step, "django"):
        return
    with desk.step(step):
        example = blocks.ROOT / DJANGO
        desk.save({f"{DJANGO}/{path.relative_to(example)}": path.read_text() for path in example.rglob("*.py")})
        [typed] = pages.typed(blocks.read(f"{DJANGO}/README.md"))
        desk.install(typed)
        exports, _, migrate, serve, worker, order, tests = pages.commands(typed)
        given = dict(each.split("=", 1) for each in shlex.split(exports)[1:])
        given["PYTHONPATH"] += os.pathsep + desk.python_path
        desk.type(migrate, given=given)
        desk.start(f"{serve} 127.0.0.1:8000 --noreload", given=given).shows("Quit the server")
        desk.start(worker, given=given).shows("serves reminders")
        assert '{"reminder": "20' in desk.type(order)
        assert "Ran 2 tests" in desk.type(tests, given=given)


def _is_left_out(desk: Desk, step: str, package: str) -> bool:
    if not desk.is_fresh and not find_spec(package):
        desk.left_out[step] = f"{package} is not installed here"
    return step in desk.left_out or desk.lacks(step, "curl")


def _with_celery(desk: Desk, step: str) -> None:
    """Redis stands for the broker that there is already."""
    try:
        redis = own_redis()
    except NotFound as why:
        desk.left_out[step] = str(why)
        return
    redis.start()
    desk.ports[6379] = redis.port
    try:
        with desk.step(step):
            _celery(desk)
    finally:
        redis.stop()


def _celery(desk: Desk) -> None:
    text = blocks.read(CELERY)
    installing, running, *_ = pages.typed(text)
    desk.install(installing)
    files = pages.files(text)
    desk.save(files)
    # `timerd dev` runs already.
    _, publisher, worker = pages.commands(running)
    desk.start(publisher).shows("serves celery")
    desk.start(worker).shows("[queues]")
    said = desk.type("python call.py")
    assert said.splitlines() == blocks.expected(files["call.py"])
