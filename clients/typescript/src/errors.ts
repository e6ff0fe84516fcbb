// errors.ts - what goes wrong, as classes: each error carries the server's code.
import type { ErrorCode } from "./api.js";

export type Code = ErrorCode | (string & {});

export interface ErrorDetails {
    code?: Code;
    message?: string;
    field?: string;
    nearest?: string;
    retry_after_s?: number;
    [member: string]: unknown;
}

/** Base of all errors of this package. */
export class SandboxError extends Error {
    /** The server's stable code (`session_ended`), or one of the client's own: `connection_failed`,
     *  `client_timeout`, `no_server`. */
    readonly code: Code;
    /** HTTP status; undefined when no server answered. */
    readonly status: number | undefined;
    /** All members of the server's error. */
    readonly details: ErrorDetails;

    constructor(message: string, code: Code = "error", status?: number, details: ErrorDetails = {},
        options?: ErrorOptions) {
        super(message, options);
        this.name = new.target.name;
        this.code = code;
        this.status = status;
        this.details = details;
    }

    /** The member of the request that is wrong. */
    get field(): string | undefined {
        return this.details.field;
    }

    /** A name that was probably meant. */
    get nearest(): string | undefined {
        return this.details.nearest;
    }

    /** Seconds after which another try makes sense. */
    get retryAfterSeconds(): number | undefined {
        return this.details.retry_after_s;
    }
}

/** No server answered, or the connection was lost in the middle of a reply. */
export class SandboxConnectionError extends SandboxError {
    /** Whether a part of the request may have reached the server. */
    readonly wasSent: boolean;

    constructor(message: string, wasSent = true, code: Code = "connection_failed", options?: ErrorOptions) {
        super(message, code, undefined, {}, options);
        this.wasSent = wasSent;
    }
}

/** Nothing is configured and there is no local daemon that could be used or started. */
export class NoServerError extends SandboxConnectionError {
    constructor(message: string) {
        super(message, false, "no_server");
    }
}

/** The client's own time limit passed before the server answered. */
export class SandboxTimeoutError extends SandboxError {
    constructor(message: string) {
        super(message, "client_timeout");
    }
}

/** A member or argument is wrong or unknown (400, 415, 422). */
export class InvalidRequestError extends SandboxError {}
/** No key, or not a valid one (401). */
export class AuthenticationError extends SandboxError {}
/** The key or the path does not allow it (403). */
export class ForbiddenError extends SandboxError {}
/** There is no such thing (404). */
export class NotFoundError extends SandboxError {}
export class SessionNotFoundError extends NotFoundError {}
export class PathNotFoundError extends NotFoundError {}
/** There is no such template, or it is not built. */
export class TemplateNotFoundError extends NotFoundError {}
/** The state of the thing does not allow it (409). */
export class ConflictError extends SandboxError {}
export class PathExistsError extends ConflictError {}
/** Another live session, context or dataset has this name. */
export class NameTakenError extends ConflictError {}
/** A package could not be installed: not found, denied, or no network. */
export class InstallError extends SandboxError {}
/** The session has ended; `details` has `ended_at` and `reason` (410). */
export class SessionEndedError extends SandboxError {}
/** A body, a file or an answer is larger than the server takes (413). */
export class TooLargeError extends SandboxError {}
/** The server does not keep this part of the output any more (416). */
export class OutputGoneError extends SandboxError {}
/** Too many sessions or contexts, or a quota is used up (429). */
export class LimitError extends SandboxError {}
/** The server or the sandbox failed (500). */
export class ServerError extends SandboxError {}
/** The server cannot do it now (503). */
export class UnavailableError extends ServerError {}
/** The sandbox's disk or the server's state folder is full (507). */
export class DiskFullError extends SandboxError {}

/** A command or cell of `check: true` that failed; `result` has its output. */
export class CommandError extends SandboxError {
    readonly result: unknown;

    constructor(message: string, code: Code, result: unknown) {
        super(message, code);
        this.result = result;
    }
}

type ErrorClass = new (message: string, code: Code, status?: number, details?: ErrorDetails) => SandboxError;

const byCode: Record<string, ErrorClass> = {
    session_not_found: SessionNotFoundError,
    path_not_found: PathNotFoundError,
    template_not_found: TemplateNotFoundError,
    template_not_built: TemplateNotFoundError,
    path_exists: PathExistsError,
    name_taken: NameTakenError,
    context_taken: NameTakenError,
    dataset_taken: NameTakenError,
    install_failed: InstallError,
    install_denied: InstallError,
    no_network: InstallError,
    session_ended: SessionEndedError,
    offset_gone: OutputGoneError,
    disk_full: DiskFullError,
};

const byStatus: Record<number, ErrorClass> = {
    400: InvalidRequestError,
    401: AuthenticationError,
    403: ForbiddenError,
    404: NotFoundError,
    405: InvalidRequestError,
    409: ConflictError,
    410: SessionEndedError,
    413: TooLargeError,
    414: TooLargeError,
    415: InvalidRequestError,
    416: OutputGoneError,
    422: InvalidRequestError,
    429: LimitError,
    431: TooLargeError,
    503: UnavailableError,
    507: DiskFullError,
};

/** The error for the member `error` of a reply, a result or an event. */
export function errorFrom(details: ErrorDetails, status?: number): SandboxError {
    const code = details.code ?? "error";
    const kind = byCode[code] ?? byStatus[status ?? 0] ?? ((status ?? 0) >= 500 ? ServerError : SandboxError);
    let message = details.message ?? "the server gave no reason";
    if (details.nearest) message += `; did you mean '${details.nearest}'?`;
    return new kind(message, code, status, details);
}

/** The error for a reply of 400 and more, whatever is in its body. */
export function errorFromReply(status: number, body: string, retryAfter?: string): SandboxError {
    let details: ErrorDetails;
    try {
        const error = (JSON.parse(body) as { error: ErrorDetails | string }).error;
        details = typeof error === "string" ? { message: error } : { ...error };
        if (!details.message) throw new Error("no message");
    } catch {
        details = {
            code: `http_${status}`,
            message: `the server answered with status ${status}: ${body.slice(0, 200).trim() || "no text"}`,
        };
    }
    if (retryAfter && /^\d+$/.test(retryAfter)) details.retry_after_s ??= Number(retryAfter);
    return errorFrom(details, status);
}
