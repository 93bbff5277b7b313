/** A refusal of the server, or what kept a call from being answered. Without `outcomeUnknown` nothing was stored. */
export class TimerdError extends Error {
  override name = "TimerdError";
  outcomeUnknown = true;
  /** For programs, as in docs/use/errors.md. */
  reason = "";
  retryAfterMs = 0;
  onlyThisTry = false;

  /** `code`: "not_found", "already_exists", "unavailable", ... */
  constructor(readonly code: string, message: string, options?: ErrorOptions) {
    super(message, options);
  }

  /** Without a reason these codes say only that the answer got lost. */
  get isRetryable(): boolean {
    const lost = ["unknown", "internal", "aborted", "canceled", "deadline_exceeded"].includes(this.code);
    return this.code === "unavailable" || (this.code === "resource_exhausted" && this.retryAfterMs > 0) || (lost && !this.reason);
  }
}

/** Why `ask` has no result. `state`: "DEAD", "CANCELLED", "PURGED"; "EXPIRED", or another one, where the time was over. */
export class Unanswered extends Error {
  override name = "Unanswered";
  constructor(readonly taskId: string, readonly state: string, readonly lastError: string) {
    super(`The task is ${state}${lastError && `: ${lastError}`}`);
  }
}

/** Refused before anything is sent. */
export function invalid(sentence: string): TimerdError {
  const failed = new TimerdError("invalid_argument", sentence);
  failed.reason = "INVALID";
  failed.outcomeUnknown = false;
  return failed;
}

export function unreached(error: unknown): TimerdError {
  const cause = error instanceof Error ? (error.cause as { code?: string; message?: string } | undefined) : undefined;
  const failed = new TimerdError("unavailable", `${cause?.message || error}`, { cause: error });
  failed.outcomeUnknown = !["ECONNREFUSED", "ENOTFOUND", "UND_ERR_CONNECT_TIMEOUT"].includes(cause?.code ?? "");
  return failed;
}

/** What the server said. Where it has no reason, a proxy on the way may have answered. */
export function refusal(response: Response, said: string): TimerdError {
  let found: { code?: string; message?: string; details?: { debug?: Debug }[] } = {};
  try {
    found = JSON.parse(said);
  } catch {
    // It was not the server.
  }
  const other = response.status < 500 && response.status !== 429 ? "unimplemented" : "unknown";
  const failed = new TimerdError(found.code ?? other, found.message ?? `${response.status} ${response.statusText}`);
  failed.retryAfterMs = 1000 * (Number(response.headers.get("retry-after")) || 0);
  for (const { debug } of found.details ?? []) {
    if (debug?.domain !== "timerd") continue;
    failed.reason = debug.reason ?? "";
    failed.outcomeUnknown = false;
    failed.onlyThisTry = debug.metadata?.["only_this_try"] === "true";
  }
  return failed;
}

interface Debug {
  domain?: string;
  reason?: string;
  metadata?: Record<string, string>;
}
