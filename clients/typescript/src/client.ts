import { positive } from "./checks.js";
import { TimerdError, Unanswered, refusal, unreached } from "./errors.js";
import type {
  Asking, CancelOutcome, ClientOptions, NewTask, Outcome, Renewed, Scheduled, Target, Task, TaskInfo, Waiting, When,
} from "./values.js";
import { type Message, base64, bytes, due, named, received, report, result, shown, span, template, tokens } from "./wire.js";

const LONGEST_WAIT_MS = 20_000, ANSWER_KEPT_MS = 60_000;
/** So much later than the answer is of use a server may say that there is none. */
const ANSWER_LATE_MS = 10_000;
/** A timer of more is over at once. */
const LONGEST_TIMER_MS = 2 ** 31 - 1;

/** Makes the calls of callers and workers. */
export class Client {
  readonly #address: string;
  readonly #options: ClientOptions;

  /** `address`: such as "http://127.0.0.1:7401". Nothing is sent yet. */
  constructor(address: string, options: ClientOptions = {}) {
    const { protocol, hostname, host } = new URL(address);
    if (options.token && protocol !== "https:" && !/^(localhost|127(\.\d+){3}|\[::1\])$/.test(hostname)) {
      throw new TypeError(`A token is sent over TLS only: use https for ${host}.`);
    }
    this.#address = address.replace(/\/$/, "");
    this.#options = options;
  }

  /** Stores a task, and resolves when it is on stable storage. */
  async schedule(queue: string, payload: Uint8Array | string, task: NewTask = {}): Promise<Scheduled> {
    const request = { template: template(queue, task), payload: base64(payload), key: task.key, ...due(task, task.requestId) };
    const reply = await this.call("TimerService/Schedule", request);
    return { id: reply.taskId, fireTime: new Date(reply.fireTime), outcome: reply.outcome.replace("ITEM_OUTCOME_", "") };
  }

  /**
   * Has a task handled at once, and resolves to what its handler has returned; undefined where that is nothing. It is stored like any
   * other task. Rejects with an Unanswered where no attempt was acknowledged in time, or none ever will be.
   */
  async ask(queue: string, payload: Uint8Array | string, asking: Asking = {}): Promise<Uint8Array | undefined> {
    const { timeoutMs = 30_000, signal, requestId = crypto.randomUUID() } = asking;
    positive("timeoutMs", timeoutMs);
    const untilMs = Date.now() + timeoutMs;
    const made = template(queue, { ...asking, expireAfterMs: timeoutMs, keepResultMs: asking.keepResultMs || ANSWER_KEPT_MS });
    const request = { template: made, payload: base64(payload), requestId, requestTime: new Date() };
    const limit = AbortSignal.timeout(Math.min(timeoutMs + ANSWER_LATE_MS, LONGEST_TIMER_MS));
    const ends = signal ? AbortSignal.any([signal, limit]) : limit;
    try {
      for (;;) {
        const reply = await this.#answer(request, Math.min(untilMs - Date.now(), LONGEST_WAIT_MS), ends);
        if (reply.state === "ACKED") return reply.result?.value === undefined ? undefined : bytes(reply.result.value);
        if (reply.hasEnded || Date.now() >= untilMs) throw new Unanswered(reply.taskId, reply.state, reply.lastError ?? "");
      }
    } catch (error) {
      // It came to a server when its answer was of no use any more: nothing is stored.
      const isTooLate = error instanceof TimerdError && error.code === "invalid_argument" && Date.now() >= untilMs;
      if (isTooLate && !error.outcomeUnknown) throw new Unanswered("", "EXPIRED", "");
      if (!signal?.aborted) throw error;
      void this.#forsake(request);
      throw signal.reason;
    }
  }

  /** Of one try, which waits so long: the same call waits for the same task. */
  async #answer(request: Message, waitMs: number, signal?: AbortSignal): Promise<any> {
    const timeoutMs = Math.max(0, waitMs);
    const reply = await this.call("TimerService/Call", { ...request, timeout: span(timeoutMs) }, timeoutMs, signal);
    return { ...reply, state: reply.state.replace("TASK_STATE_", "") };
  }

  /** Cancels the task that nobody waits for any more, which may be on its way to the store. */
  async #forsake(request: Message): Promise<void> {
    const cancelled = this.#answer(request, 0).then((reply) => reply.hasEnded || this.cancel({ id: reply.taskId }));
    await cancelled.catch(() => {});
  }

  /** Resolves to a task as it is stored now. */
  async get(task: Target): Promise<TaskInfo> {
    return shown((await this.call("TimerService/Get", named(task))).task);
  }

  /**
   * Resolves to a task when it has ended, or after `timeoutMs` as it is then: `isOver` tells. Default until it has ended, or the signal
   * is aborted. Of a key it is the task that has it now.
   */
  async wait(task: Target, { timeoutMs = Infinity, signal }: Waiting = {}): Promise<TaskInfo> {
    const untilMs = Date.now() + timeoutMs;
    for (let target = task; ; ) {
      const waitMs = Math.max(0, Math.min(untilMs - Date.now(), LONGEST_WAIT_MS));
      const reply = await this.call("TimerService/Wait", { ...named(target), timeout: span(waitMs) }, waitMs, signal);
      if (reply.hasEnded || Date.now() >= untilMs) return shown(reply.task);
      target = { id: reply.task.taskId };
    }
  }

  async cancel(task: Target): Promise<CancelOutcome> {
    const reply = await this.call("TimerService/Cancel", { ...named(task), requestId: crypto.randomUUID() });
    return reply.outcome.replace("CANCEL_OUTCOME_", "");
  }

  /** Gives a task another fire time, and resolves to it. */
  async reschedule(task: Target, when: When): Promise<Date> {
    const reply = await this.call("TimerService/Reschedule", { ...named(task), ...due(when) });
    return new Date(reply.fireTime);
  }

  /**
   * Waits until tasks of a queue are due, and resolves to up to `max`. Finish them within the lease. Of several queues those of the
   * greatest score come first, as in a pool.
   */
  async receive(queue: string | readonly string[], max: number, waitMs = 20_000, leaseMs = 30_000, signal?: AbortSignal): Promise<Task[]> {
    const of = typeof queue === "string" ? { queue } : { queues: queue };
    const request = { ...of, maxTasks: max, wait: span(waitMs), lease: span(leaseMs) };
    const reply = await this.call("WorkService/Receive", request, waitMs, signal);
    return (reply.tasks ?? []).map(received);
  }

  /** Says what became of received tasks, and resolves when that is on stable storage. One that had ended is passed over. */
  async finish(tasks: readonly Task[], outcome: Outcome = { action: "ack" }): Promise<void> {
    const isThrottled = outcome.action === "throttled";
    const action = `SETTLE_ACTION_${isThrottled ? "NACK" : outcome.action.toUpperCase()}`;
    const delay = outcome.afterMs === undefined ? undefined : span(outcome.afterMs);
    const throttle = isThrottled ? { limit: outcome.limit, after: delay, byKey: outcome.byKey || undefined } : undefined;
    const request = { ackTokens: tokens(tasks), action, delay, throttle, error: outcome.error };
    await this.call("WorkService/Finish", { ...request, ...result(tasks, outcome.result) });
  }

  /** Begins the leases anew, says the progress of the tasks, and resolves to the ack tokens of those that are lost. */
  async extend(tasks: readonly Task[], leaseMs = 30_000): Promise<string[]> {
    return (await this.renew(tasks, leaseMs)).lost;
  }

  /** As `extend`, also with the tasks on which the work is for nothing, each by its ack token. */
  async renew(tasks: readonly Task[], leaseMs: number): Promise<Renewed> {
    const reports = tasks.flatMap(report);
    const request = { ackTokens: tokens(tasks), lease: span(leaseMs), reports: reports.length ? reports : undefined };
    const reply = await this.call("WorkService/Extend", request);
    return { lost: reply.lost ?? [], interrupts: reply.interrupts ?? [] };
  }

  /**
   * Makes any other unary call of the .proto files, such as "TimerService/Get": its messages are written as JSON. The same
   * bytes are repeated until they are answered; the server may take `waitMs` longer.
   */
  async call(method: string, request: Message, waitMs = 0, signal?: AbortSignal): Promise<any> {
    const body = JSON.stringify({ namespace: this.#options.namespace, ...request });
    const deadlineMs = Date.now() + (this.#options.timeoutMs ?? 30_000) + waitMs;
    for (let pauseMs = 50, unknown = false; ; pauseMs = Math.min(2 * pauseMs, 2_000)) {
      const limit = AbortSignal.timeout(Math.max(1, Math.min(deadlineMs - Date.now(), 10_000 + waitMs)));
      try {
        return await this.#try(method, body, signal ? AbortSignal.any([signal, limit]) : limit);
      } catch (error) {
        if (!(error instanceof TimerdError)) throw error;
        unknown ||= error.outcomeUnknown;
        const againMs = Math.max(error.retryAfterMs, pauseMs * (0.5 + Math.random() / 2));
        if (!error.isRetryable || signal?.aborted || Date.now() + againMs >= deadlineMs) {
          error.outcomeUnknown ||= unknown && (error.onlyThisTry || error.isRetryable);
          throw error;
        }
        await sleep(againMs, signal);
      }
    }
  }

  async #try(method: string, body: string, signal: AbortSignal): Promise<unknown> {
    const headers: Record<string, string> = { "content-type": "application/json" };
    if (this.#options.token) headers["authorization"] = `Bearer ${this.#options.token}`;
    let response: Response, said: string;
    try {
      response = await (this.#options.fetch ?? fetch)(`${this.#address}/timerd.v1.${method}`, { method: "POST", headers, body, signal });
      said = await response.text();
    } catch (error) {
      throw unreached(error);
    }
    if (response.status !== 200) throw refusal(response, said);
    try {
      return JSON.parse(said);
    } catch (error) {
      // A proxy's page, say.
      throw unreached(error);
    }
  }
}

/** Until then, or until the signal. */
export function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const end = () => (clearTimeout(timer), signal?.removeEventListener("abort", end), resolve());
    const timer = setTimeout(end, ms);
    signal?.addEventListener("abort", end, { once: true });
  });
}
