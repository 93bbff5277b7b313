"""Recurring schedules: `client.schedules`, for asyncio and without it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Coroutine, Iterable, Mapping, Sequence
from datetime import datetime
from itertools import count as counted
from typing import Any, TypeVar, Unpack

from timerd.sdk.scheduling.backfills import ScheduleBackfills
from timerd.sdk.scheduling.new_schedules import MAX_COUNT, NewSchedule, ScheduleResult, messages_of, policies_of
from timerd.sdk.scheduling.schedule_link import request_id_of
from timerd.sdk.scheduling.sync_twin import blocking, iterating
from timerd.sdk.transport import Calls, pages
from timerd.sdk.values import (
    OVERLAP,
    Pruned,
    Schedule,
    ScheduleState,
    Span,
    SpecKeywords,
    TaskOptions,
    Upcoming,
    flag,
    instant_ms,
    invalid,
    labels_tuple,
    listed,
    name,
    one_of,
    payload_bytes,
    spec_of,
    template_of,
    text,
    timestamp_of_ms,
    whole_number,
)
from timerd.v1 import schedule_service_pb2 as pb

Done = TypeVar("Done")
# Inside the class, `list` is the method.
Instants = list[Upcoming]
Results = list[ScheduleResult]
# Schedules of a list that are asked for at a time.
_LISTED_TOGETHER = 500
_CHANGES = "`queue`, `payload`, `labels`, `catch_up`, `max_count`, `overlap`, `pause_on_dead`"


class Opened:
    """Of a worker: its namespace, and its channel that is open."""

    def __init__(self, namespace: str, calls: Calls) -> None:
        self._namespace = namespace
        self._calls = calls

    def _open(self) -> None:
        """It is."""


class Schedules(ScheduleBackfills):
    """The schedules of a client's namespace: what comes again, and when.

    Clients make it, as `client.schedules`. Every call may raise the errors that the class of the client names.

    Args:
        client: the client.
    """

    async def create(
        self,
        schedule_id: str,
        *,
        queue: str,
        payload: bytes | str = b"",
        catch_up: str = "latest",
        catch_up_window: Span | None = None,
        max_count: int = 0,
        overlap: str = "allow",
        pause_on_dead: bool = False,
        labels: Mapping[str, str] | None = None,
        on_conflict: str = "reject",
        options: TaskOptions | None = None,
        request_id: str | None = None,
        **when: Unpack[SpecKeywords],
    ) -> Schedule:
        """The call creates a schedule, which makes a task of `queue` at each of its instants from now on.

        Args:
            schedule_id: a name of the caller's choice, unique in the namespace.
            queue: the queue whose workers receive the tasks.
            payload: what the handler receives, bytes or a text; up to 64 KiB.
            catch_up: what becomes of instants that are over when they are looked at: "latest" (one task, for the last
                of them; the default), "all", or "none" (none that is more than a minute over). A task that waits for
                a worker for too long follows it as well: it expires when the next instant fires (latest), after
                `catch_up_window` (all), or after a minute (none).
            catch_up_window: of "all", what is over for longer is missed, a timedelta or seconds. Default no limit.
            max_count: the schedule is done after so many tasks. Default 0, any number.
            overlap: what becomes of an instant whose time comes while the task before is open: "allow" (it has a task
                beside that one; the default), "skip" (it has none), "buffer_one" and "buffer_all" (it waits for the
                end of that one, alone or with up to 1,000), "cancel_other" (that one is cancelled, and it waits for
                its end) or "replace" (that one is cancelled, and it comes at once).
            pause_on_dead: whether a dead letter of it pauses the schedule; not with "allow". Default not.
            labels: labels of the schedule itself, by which `list` chooses. Default none.
            on_conflict: "reject" (the default), or "update": a schedule of this id becomes what is asked for.
            options: what else its tasks have, as for `Client.schedule`; without `expire_at` and `soft_expire_at`.
            request_id: a name of this call, by which a repeat is known. Default a new one.
            when: when it comes, the keywords of `SpecKeywords`.

        Raises:
            AlreadyExists: there is a schedule of this id.
        """
        new = NewSchedule(
            schedule_id,
            queue=queue,
            payload=payload,
            catch_up=catch_up,
            catch_up_window=catch_up_window,
            max_count=max_count,
            overlap=overlap,
            pause_on_dead=pause_on_dead,
            labels=labels,
            on_conflict=on_conflict,
            options=options,
            **when,
        )
        request = pb.CreateScheduleRequest(namespace=self._open(), request_id=request_id_of(request_id))
        request.MergeFrom(new.message)
        return Schedule.of((await self._call("CreateSchedule", request, pb.CreateScheduleResponse)).schedule)

    async def create_many(self, schedules: Iterable[NewSchedule], *, request_id: str | None = None) -> Results:
        """The call creates many schedules, and returns one result for each, in their order.

        One schedule that is refused keeps no other from being created: its result has the error. Where the call raises,
        schedules of earlier messages (1,000 each) may be there; calling it again with the same `request_id` is safe.

        Args:
            schedules: what is to be created: a `NewSchedule` each. Of two with one id the first one comes first.
            request_id: a name of this call, by which a repeat is known; up to 100 characters. Default a new one.
        """
        namespace, call = self._open(), request_id_of(request_id)
        results: Results = []
        for number, part in enumerate(messages_of(schedules)):
            request = pb.CreateScheduleBatchRequest(namespace=namespace, request_id=f"{call}/{number}", schedules=part)
            response = await self._call("CreateScheduleBatch", request, pb.CreateScheduleBatchResponse)
            results += map(ScheduleResult.of, response.results)
        return results

    async def get(self, schedule_id: str) -> Schedule:
        """The call returns a schedule as it is now, with its next instants.

        Args:
            schedule_id: the id of the schedule.

        Raises:
            NotFound: there is no such schedule.
        """
        request = pb.GetScheduleRequest(namespace=self._open(), schedule_id=name(schedule_id, "schedule_id"))
        return Schedule.of((await self._call("GetSchedule", request, pb.GetScheduleResponse)).schedule)

    async def list(
        self,
        *,
        labels: Mapping[str, str] | None = None,
        states: Iterable[ScheduleState] = (),
        zone: str = "",
        prefix: str = "",
    ) -> AsyncIterator[Schedule]:
        """The call goes through the schedules of the namespace, in no order.

        Args:
            labels: those that have all of these labels. Default all.
            states: those in one of these states. Default all.
            zone: those of this zone. Default all.
            prefix: those whose id begins so. Default all.
        """
        request = pb.ListSchedulesRequest(
            namespace=self._open(),
            labels=dict(labels_tuple(labels)),
            states=[int(state) for state in listed(states, "states")],  # type: ignore[misc]
            zone=text(zone, "zone"),
            prefix=text(prefix, "prefix"),
            page_size=_LISTED_TOGETHER,
        )
        asked = pages(request, lambda: self._call("ListSchedules", request, pb.ListSchedulesResponse))
        async for page in asked:
            for each in page.schedules:
                yield Schedule.of(each)

    async def preview(
        self,
        schedule_id: str | None = None,
        *,
        after: datetime | None = None,
        count: int = 10,
        **when: Unpack[SpecKeywords],
    ) -> Instants:
        """The call returns the next instants of a schedule, or of a spec that is not stored.

        Args:
            schedule_id: the id of the schedule. Default none: `when` says when.
            after: instants after this one, a datetime with a zone. Default now.
            count: how many, up to 1,000. Default 10.
            when: the keywords of `SpecKeywords`, in place of a schedule.

        Raises:
            NotFound: there is no such schedule.
        """
        request = pb.PreviewScheduleRequest(namespace=self._open(), count=whole_number(count, "count", 1, 1_000))
        if schedule_id is not None:
            request.schedule_id = name(schedule_id, "schedule_id")
        else:
            request.spec.CopyFrom(spec_of("preview", when))
        if after is not None:
            getattr(request, "from").CopyFrom(timestamp_of_ms(instant_ms(after, "after")))
        response = await self._call("PreviewSchedule", request, pb.PreviewScheduleResponse)
        return [Upcoming.of(each) for each in response.occurrences]

    async def update(
        self,
        schedule_id: str,
        *,
        queue: str | None = None,
        payload: bytes | str | None = None,
        catch_up: str | None = None,
        catch_up_window: Span | None = None,
        max_count: int | None = None,
        overlap: str | None = None,
        pause_on_dead: bool | None = None,
        labels: Mapping[str, str] | None = None,
        options: TaskOptions | None = None,
        revision: int = 0,
        request_id: str | None = None,
        **when: Unpack[SpecKeywords],
    ) -> Schedule:
        """The call changes a schedule at one moment: what is left out stays.

        When it returns, nothing of the schedule as it was starts any more that was to come later.

        Args:
            schedule_id: the id of the schedule.
            queue: another queue, and with it the `options` of its tasks.
            payload: another payload.
            catch_up: another policy, and with it `catch_up_window`.
            catch_up_window: as for `create`, given with `catch_up`.
            max_count: another number of tasks, from the first one on; 0 for any number.
            overlap: another policy of overlaps. It holds for tasks that are created from now on.
            pause_on_dead: as for `create`.
            labels: other labels of the schedule.
            options: as for `create`, given with `queue`.
            revision: the only revision that is changed. Default whatever it is.
            request_id: a name of this call, by which a repeat is known. Default a new one.
            when: other times, the keywords of `SpecKeywords`, as a whole; without `zone` the schedule's zone stays.

        Raises:
            NotFound: there is no such schedule.
            Aborted: it has another revision by now.
            InvalidTask: nothing is given that could change.
        """
        request = pb.UpdateScheduleRequest(
            namespace=self._open(),
            request_id=request_id_of(request_id),
            schedule_id=name(schedule_id, "schedule_id"),
            revision=whole_number(revision, "revision"),
        )
        paths: Sequence[str] = _edits(request, queue, payload, labels, options)
        paths = [*paths, *_policy_edits(request, catch_up, catch_up_window, max_count, overlap, pause_on_dead)]
        if when:
            request.spec.CopyFrom(spec_of("update", when))
            paths = [*paths, "spec"]
        if not paths:
            raise invalid(f"The call says nothing that could change: give {_CHANGES} or when it comes.", "update_mask")
        request.update_mask.paths.extend(paths)
        return Schedule.of((await self._call("UpdateSchedule", request, pb.UpdateScheduleResponse)).change.schedule)

    async def pause(
        self,
        schedule_id: str,
        *,
        note: str = "",
        until: datetime | None = None,
        revision: int = 0,
        request_id: str | None = None,
    ) -> Schedule:
        """The call pauses a schedule: when it returns, no task of it starts that was to come later.

        Args:
            schedule_id: the id of the schedule.
            note: why, for the reader of the schedule; up to 1,024 characters. Default nothing.
            until: when it goes on by itself, a datetime with a zone. Default when it is resumed.
            revision: the only revision that is changed. Default whatever it is.
            request_id: a name of this call, by which a repeat is known. Default a new one.

        Raises:
            NotFound: there is no such schedule.
            Aborted: it has another revision by now.
        """
        request = pb.PauseScheduleRequest(
            namespace=self._open(),
            request_id=request_id_of(request_id),
            schedule_id=name(schedule_id, "schedule_id"),
            revision=whole_number(revision, "revision"),
            note=text(note, "note", 4_096),
        )
        if until is not None:
            request.until.CopyFrom(timestamp_of_ms(instant_ms(until, "until")))
        return Schedule.of((await self._call("PauseSchedule", request, pb.PauseScheduleResponse)).change.schedule)

    async def resume(
        self, schedule_id: str, *, catch_up: bool = False, revision: int = 0, request_id: str | None = None
    ) -> Schedule:
        """The call ends a pause. A schedule that is not paused stays as it is.

        Args:
            schedule_id: the id of the schedule.
            catch_up: whether it goes on with what it missed, by its policy `catch_up`. Default with the next instant.
            revision: the only revision that is changed. Default whatever it is.
            request_id: a name of this call, by which a repeat is known. Default a new one.

        Raises:
            NotFound: there is no such schedule.
            Aborted: it has another revision by now.
        """
        request = pb.ResumeScheduleRequest(
            namespace=self._open(),
            request_id=request_id_of(request_id),
            schedule_id=name(schedule_id, "schedule_id"),
            revision=whole_number(revision, "revision"),
            mode=pb.RESUME_MODE_CATCH_UP if flag(catch_up, "catch_up") else pb.RESUME_MODE_SKIP_MISSED,
        )
        return Schedule.of((await self._call("ResumeSchedule", request, pb.ResumeScheduleResponse)).change.schedule)

    async def delete(
        self, schedule_id: str, *, cancel_open: bool = False, revision: int = 0, request_id: str | None = None
    ) -> None:
        """The call deletes a schedule: when it returns, no task of it starts that was to come later.

        Args:
            schedule_id: the id of the schedule.
            cancel_open: whether the task that is open is cancelled too; not with `overlap` "allow". Default not.
            revision: the only revision that is deleted. Default whatever it is.
            request_id: a name of this call, by which a repeat is known. Default a new one.

        Raises:
            NotFound: there is no such schedule.
            Aborted: it has another revision by now.
            FailedPrecondition: `cancel_open` with `overlap` "allow", under which no schedule knows what is open.
        """
        request = pb.DeleteScheduleRequest(
            cancel_open=flag(cancel_open, "cancel_open"),
            namespace=self._open(),
            request_id=request_id_of(request_id),
            schedule_id=name(schedule_id, "schedule_id"),
            revision=whole_number(revision, "revision"),
        )
        await self._call("DeleteSchedule", request, pb.DeleteScheduleResponse)

    async def prune(
        self,
        *,
        labels: Mapping[str, str],
        keep: Iterable[str],
        force: bool = False,
        request_id: str | None = None,
    ) -> Pruned:
        """The call deletes the schedules that have all the labels, but for those that are kept; without `force` none.

        So what the code of an application declares no longer goes. A schedule that is changed while the call runs
        stays. Where the call raises, some may be deleted; calling it again is safe.

        Args:
            labels: those that the application sets on all its schedules; at least one.
            keep: the ids that stay, up to 10,000.
            force: whether they are deleted; else the result says what would be. Default not.
            request_id: a name of this call, by which a repeat is known; up to 100 characters. Default a new one.
        """
        request = pb.PruneSchedulesRequest(
            namespace=self._open(),
            labels=dict(labels_tuple(labels)),
            keep=[name(each, "keep") for each in listed(keep, "keep")],
            force=flag(force, "force"),
        )
        call, numbers = request_id_of(request_id), counted(0)

        def ask() -> Coroutine[Any, Any, pb.PruneSchedulesResponse]:
            # Each page is a call of its own.
            request.request_id = f"{call}/{next(numbers)}"
            return self._call("PruneSchedules", request, pb.PruneSchedulesResponse)

        found = [schedule_id async for page in pages(request, ask) for schedule_id in page.schedule_ids]
        return Pruned(tuple(sorted(found)), not force)

    async def trigger(self, schedule_id: str, *, request_id: str | None = None) -> str:
        """The call makes a task of a schedule now, beside those of its instants, and returns its id.

        Where `overlap` is neither "allow" nor "replace", it is refused while a task of the schedule is open.

        Args:
            schedule_id: the id of the schedule.
            request_id: a name of this call, by which a repeat is known. Default a new one.

        Raises:
            NotFound: there is no such schedule.
            FailedPrecondition: a task of it is open, and its policy of overlaps says that it stays alone.
        """
        request = pb.TriggerScheduleRequest(
            namespace=self._open(),
            request_id=request_id_of(request_id),
            schedule_id=name(schedule_id, "schedule_id"),
        )
        task_id: str = (await self._call("TriggerSchedule", request, pb.TriggerScheduleResponse)).task_id
        return task_id


class SyncSchedules:
    """The schedules of a sync client's namespace: the calls of `Schedules` without await.

    Sync clients make it, as `client.schedules`.

    Args:
        client: the sync client.
    """

    def __init__(self, client: Any) -> None:  # noqa: ANN401 - it makes this
        self._client = client._client.schedules
        self._caller = client

    def _run(self, work: Coroutine[Any, Any, Done]) -> Done:
        ran: Done = self._caller._run(work)
        return ran

    create = blocking(Schedules.create)
    create_many = blocking(Schedules.create_many)
    get = blocking(Schedules.get)
    preview = blocking(Schedules.preview)
    update = blocking(Schedules.update)
    pause = blocking(Schedules.pause)
    resume = blocking(Schedules.resume)
    delete = blocking(Schedules.delete)
    prune = blocking(Schedules.prune)
    trigger = blocking(Schedules.trigger)
    list = iterating(Schedules.list)
    backfill = blocking(Schedules.backfill)
    get_backfill = blocking(Schedules.get_backfill)
    list_backfills = iterating(Schedules.list_backfills)
    cancel_backfill = blocking(Schedules.cancel_backfill)


def _policy_edits(
    request: pb.UpdateScheduleRequest,
    catch_up: str | None,
    window: Span | None,
    max_count: int | None,
    overlap: str | None,
    pause_on_dead: bool | None,
) -> Sequence[str]:
    """As `_edits`. Each changes by itself, but for the window, which belongs to what is caught up."""
    paths = []
    if catch_up is not None:
        request.policies.CopyFrom(policies_of(catch_up, window, 0, "allow", pause_on_dead=False))
        paths.append("policies.catch_up")
    elif window is not None:
        raise invalid("`catch_up_window` belongs to a policy: give `catch_up` with it.", "catch_up_window")
    if max_count is not None:
        request.policies.max_count = whole_number(max_count, "max_count", 0, MAX_COUNT)
        paths.append("policies.max_count")
    if overlap is not None:
        request.policies.overlap = one_of(overlap, "overlap", OVERLAP)  # type: ignore[assignment]
        paths.append("policies.overlap")
    if pause_on_dead is not None:
        request.policies.pause_on_dead = flag(pause_on_dead, "pause_on_dead")
        paths.append("policies.pause_on_dead")
    return paths


def _edits(
    request: pb.UpdateScheduleRequest,
    queue: str | None,
    payload: bytes | str | None,
    labels: Mapping[str, str] | None,
    options: TaskOptions | None,
) -> Sequence[str]:
    """What is given goes into the request; returns its paths."""
    paths = []
    if queue is not None:
        request.template.CopyFrom(template_of("update", queue, options, {}).to_proto())
        paths.append("template")
    elif options is not None:
        raise invalid("`options` are of the tasks of a queue: give `queue` with them.", "options")
    if payload is not None:
        request.payload = payload_bytes(payload)
        paths.append("payload")
    if labels is not None:
        request.labels.update(labels_tuple(labels))
        paths.append("labels")
    return paths
