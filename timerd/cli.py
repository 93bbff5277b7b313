"""The command line: puts the commands together, and is the only place where an error becomes an exit code."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Sequence
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from timerd.commands import (
    announce,
    audit,
    backup,
    celery,
    change,
    cluster,
    config,
    cycles,
    dead,
    demo,
    dev,
    doctor,
    explain,
    health,
    keys,
    limits,
    look,
    outbox,
    partition,
    purge,
    queues,
    schedule,
    schedules,
    schema,
    serve,
    simulate,
    tail,
    token,
    top,
    version,
    work,
    workers,
    zones,
)
from timerd.commands.failures import CommandFailure, failure_of_os
from timerd.commands.watch import with_seconds

# In the order of `timerd --help`.
_PANELS = {
    "Run a server": (dev, serve, config, token, schema),
    "Tasks": (schedule, look, explain, change, purge, work, celery, outbox),
    "Dead letters": (dead,),
    "Schedules and cycles": (schedules, cycles, zones),
    "Operate": (top, tail, workers, queues, keys, limits, doctor, health, cluster, partition, announce, backup, audit),
    "Try it": (demo, simulate, version),
}


class _Grouped(TyperGroup):
    """Lists commands and groups by their panels; by itself typer puts all groups at the end."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ANN401 - typer's own, whichever parser it is built on
        panels, commands = list(_PANELS), dict[str, Any](self.commands)
        return sorted(commands, key=lambda name: panels.index(commands[name].rich_help_panel))


app = typer.Typer(
    name="timerd",
    cls=_Grouped,
    help="A durable timer service: say when, and a worker receives the task at that instant.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _register_all() -> None:
    for panel, modules in _PANELS.items():
        part = typer.Typer()
        for module in modules:
            module.register(part)
        for command in part.registered_commands:
            command.rich_help_panel = panel
        for group in part.registered_groups:
            group.rich_help_panel = panel
        app.registered_commands += part.registered_commands
        app.registered_groups += part.registered_groups


_register_all()

# Whatever typer says about wrong usage, whichever parser it is built on.
_UsageTrouble = typer.BadParameter.__mro__[2]
_INTERRUPTED = 130


def _show_version(wanted: bool) -> None:
    if wanted:
        version.version(json=False)
        raise typer.Exit


@app.callback()
def options(
    show_version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_show_version, help="Print the version and end.")
    ] = False,
) -> None:
    """The work is done by the commands."""


def main(arguments: Sequence[str] | None = None) -> None:
    sys.exit(run(arguments))


def run(arguments: Sequence[str] | None = None) -> int:
    """The exit code."""
    # gRPC's own log lines, written from C++ beside ours: what they say arrives as a sentence too.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    try:
        typed = with_seconds(sys.argv[1:] if arguments is None else arguments)
        code = app(typed, prog_name="timerd", standalone_mode=False)
    except CommandFailure as failure:
        return _tell(str(failure), failure.exit_code)
    except (KeyboardInterrupt, typer.Abort):
        return _tell("Interrupted.", _INTERRUPTED)
    except BrokenPipeError:
        # The reader (head, less) has seen enough. Python would complain when it flushes at the end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        trouble = failure_of_os(error)
        return _tell(str(trouble), trouble.exit_code)
    except Exception as error:  # noqa: BLE001 - a sentence, whatever happened
        return _tell_usage(error) if isinstance(error, _UsageTrouble) else _tell_unforeseen(error)
    return code if isinstance(code, int) else 0


def _tell(sentence: str, exit_code: int) -> int:
    print(f"timerd: {sentence}", file=sys.stderr)
    return exit_code


def _tell_unforeseen(error: Exception) -> int:
    if os.environ.get("TIMERD_TRACEBACK"):
        traceback.print_exception(error)
    what = f"{type(error).__name__}: {error}".rstrip(": ")
    return _tell(f"Something went wrong that should not ({what}). TIMERD_TRACEBACK=1 shows where; please report it.", 1)


def _tell_usage(error: BaseException) -> int:
    """One line: what was wrong and where the allowed is listed."""
    context = getattr(error, "ctx", None)
    if type(error).__name__ == "NoArgsIsHelpError":
        print(context.get_help() if context else "", file=sys.stderr)
        return 2
    sentence = " ".join(error.format_message().split()) if hasattr(error, "format_message") else str(error)
    sentence = sentence.replace(": Value error, ", ": ")
    command = context.command_path if context else "timerd"
    hint = ""
    if type(error).__name__ == "NoSuchOption" and command == "timerd schedule":
        hint = " A PAYLOAD that begins with a dash goes to the end, behind two: timerd schedule q --in 5m -- -5."
    return _tell(f"{sentence.rstrip('.')}.{hint} See `{command} --help`.", 2)


if __name__ == "__main__":
    main()
