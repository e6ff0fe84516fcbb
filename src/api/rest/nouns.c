/* nouns.c - the objects of docs/rest.md as JSON Schema, for the OpenAPI document. */
#include "api/front/row_text.h"
#include "api/rest/rest_private.h"

/* clang-format off */
const char rest_nouns[] = JSON(
    "Error": {
        "description": "Why a request failed: a stable code, and what to do next.",
        "type": "object", "properties": {
        "error": {"type": "object", "properties": {"code": {"type": "string"},
          "message": {"type": "string"}, "field": {"type": "string"},
          "line": {"type": "integer"}, "column": {"type": "integer"},
          "nearest": {"type": ["string", "null"]}, "retry_after_s": {"type": "integer"},
          "ended_at": {"type": ["string", "null"]}, "reason": {"type": ["string", "null"]},
          "execution_id": {"type": "string"}, "stage": {"type": "string"},
          "errno": {"type": "string"}, "first": {"type": "integer"},
          "bytes": {"type": "integer"}}, "required": ["code", "message"]}}, "required": ["error"]},
    "Info": {
        "description": "The daemon: its version, its processes, its limits.",
        "type": "object", "properties": {
        "version": {"type": "string"}, "runtime": {"type": "string"},
        "launcher_pid": {"type": "integer"}, "broker_pid": {"type": "integer"},
        "generation": {"type": "integer"}, "socket": {"type": ["string", "null"]},
        "state": {"type": ["string", "null"]}, "config_file": {"type": ["string", "null"]},
        "started_at": {"type": "string"}, "sessions": {"type": "integer"},
        "max_sessions": {"type": "integer"},
        "limits": {"type": "object", "properties": {
          "timeout_s": {"type": "number"}, "memory_bytes": {"type": "integer"},
          "disk_bytes": {"type": "integer"}, "output_bytes": {"type": "integer"},
          "pids": {"type": "integer"}, "cpu_millis": {"type": "integer"}}},
        "languages": {"type": "array", "items": {"type": "string"}},
        "libraries": {"type": "object", "additionalProperties": {"type": "string"}}},
        "required": ["version", "launcher_pid", "broker_pid", "sessions"]},
    "Tool": {
        "description": "An operation that a model calls by name.",
        "type": "object", "properties": {
        "name": {"type": "string"}, "title": {"type": "string"}, "category": {"type": "string"},
        "description": {"type": "string"},
        "parameters": {"type": "object", "additionalProperties": true},
        "annotations": {"type": "object", "additionalProperties": {"type": "boolean"}}},
        "required": ["name", "title", "category", "description", "parameters", "annotations"]},
    "Dataset": {
        "description": "A file that a session was given, read-only in /tmp/data.",
        "type": "object", "properties": {
        "name": {"type": "string"}, "path": {"type": "string"}, "bytes": {"type": "integer"}},
        "required": ["name", "path", "bytes"]},
    "Session": {
        "description": "A sandbox that keeps files, processes and variables until it ends.",
        "type": "object", "properties": {
        "id": {"type": "string"}, "tenant": {"type": "string"},
        "name": {"type": ["string", "null"]}, "template": {"type": ["string", "null"]},
        "state": {"type": "string", "enum": ["new", "starting", "ready", "ending", "ended"]},
        "created_at": {"type": "string"}, "last_used_at": {"type": "string"},
        "expires_at": {"type": ["string", "null"]}, "age_limit_at": {"type": ["string", "null"]},
        "idle_timeout_s": {"type": "number"},
        "ended_at": {"type": ["string", "null"]}, "end_reason": {"type": ["string", "null"]},
        "provider": {"type": "string"},
        "env": {"type": "object", "additionalProperties": {"type": "string"}},
        "datasets": {"type": "array", "items": {"$ref": "#/components/schemas/Dataset"}},
        "running": {"type": "integer"},
        "executions": {"type": "integer"}, "output_folder": {"type": ["string", "null"]},
        "limits": {"type": "object", "properties": {
          "memory_bytes": {"type": "integer"}, "disk_bytes": {"type": "integer"},
          "pids": {"type": "integer"}, "cpu_millis": {"type": "integer"}}},
        "isolation": {"type": ["object", "null"], "properties": {
          "level": {"type": "string"},
          "layers": {"type": "array", "items": {"type": "string"}},
          "missing": {"type": "array", "items": {"type": "string"}}}},
        "type": {"type": "string"},
        "settings": {"type": "object", "additionalProperties": {"type": "string"}}},
        "required": ["id", "state"]},
    "Process": {
        "description": "An execution: a command or a cell of a session, from its start to its end.",
        "type": "object", "properties": {
        "execution_id": {"type": "string"},
        "kind": {"type": "string", "enum": ["command", "cell"]}, "context": {"type": "string"},
        "number": {"type": "integer"}, "argv": {"type": "array", "items": {"type": "string"}},
        "state": {"type": "string", "enum": ["waiting", "running", "exited", "failed"]},
        "started_at": {"type": ["string", "null"]}, "ended_at": {"type": ["string", "null"]},
        "exit_code": {"type": ["integer", "null"]}, "signal": {"type": ["integer", "null"]},
        "timed_out": {"type": "boolean"}, "oom_killed": {"type": "boolean"},
        "background": {"type": "boolean"},
        "pty": {"type": "boolean"}, "stdout_bytes": {"type": "integer"},
        "stderr_bytes": {"type": "integer"}, "error": {"type": ["object", "null"], "properties": {
          "code": {"type": "string"}, "message": {"type": "string"},
          "provider": {"type": "string"}}}},
        "required": ["execution_id", "state"]},
    "Result": {
        "description": "What a command or a run has printed, and how it ended.",
        "type": "object", "properties": {
        "stdout": {"type": "string"}, "stderr": {"type": "string"},
        "exit_code": {"type": "integer"}, "duration": {"type": "number"},
        "meta": {"type": "object", "additionalProperties": true}},
        "required": ["stdout", "stderr", "exit_code", "duration", "meta"]},
    "CellResult": {
        "description": "What a cell has printed, its values, and how it ended.",
        "type": "object", "properties": {
        "stdout": {"type": "string"}, "stderr": {"type": "string"},
        "exit_code": {"type": "integer"}, "duration": {"type": "number"},
        "results": {"type": "array", "items": {"type": "object",
          "properties": {"type": {"type": "string", "enum": ["result", "display"]},
          "data": {"type": "object", "additionalProperties": true},
          "truncated": {"type": "array", "items": {"type": "string"}}}}},
        "error": {"type": ["object", "null"], "properties": {"name": {"type": "string"},
          "value": {"type": "string"}, "traceback": {"type": "string"}}},
        "execution_count": {"type": ["integer", "null"]},
        "meta": {"type": "object", "additionalProperties": true}},
        "required": ["stdout", "stderr", "exit_code", "duration", "results", "error", "meta"]},
    "Context": {
        "description": "A named queue of cells with one interpreter that keeps variables.",
        "type": "object", "properties": {
        "id": {"type": "string"}, "name": {"type": ["string", "null"]},
        "language": {"type": "string"},
        "state": {"type": "string", "enum": ["new", "idle", "busy", "dead"]},
        "cells": {"type": "integer"}, "pid": {"type": ["integer", "null"]},
        "warm": {"type": "boolean"}, "started_at": {"type": ["string", "null"]},
        "last_used_at": {"type": ["string", "null"]}, "default": {"type": "boolean"},
        "cwd": {"type": "string"}, "note": {"type": ["string", "null"]}},
        "required": ["id", "language", "state"]},
    "Entry": {
        "description": "A file or a folder of a sandbox.",
        "type": "object", "properties": {
        "name": {"type": "string"},
        "type": {"type": "string", "enum": ["file", "folder", "symlink", "other"]},
        "bytes": {"type": "integer"}, "mode": {"type": "string"},
        "modified_at": {"type": "string"}},
        "required": ["name", "type", "bytes", "mode", "modified_at"]},
    "Template": {
        "description": "What a sandbox has besides the system: interpreter, packages, modules.",
        "type": "object", "properties": {
        "name": {"type": "string"}, "description": {"type": "string"},
        "state": {"type": "string", "enum": ["built", "not_built", "stale"]},
        "layer": {"type": ["string", "null"]}, "python": {"type": ["string", "null"]},
        "packages": {"type": "array", "items": {"$ref": "#/components/schemas/Package"}},
        "bytes": {"type": "integer"},
        "files": {"type": "integer"},
        "tiers": {"type": "array", "items": {"type": "object", "properties": {
          "name": {"type": "string"},
          "modules": {"type": "array", "items": {"type": "string"}}}}},
        "env": {"type": "object", "additionalProperties": {"type": "string"}},
        "built_at": {"type": ["string", "null"]},
        "used_by": {"type": "integer"}, "was_there": {"type": "boolean"}},
        "required": ["name", "state"]},
    "Key": {
        "description": "An API key, without its secret; the reply that makes it also has its text.",
        "type": "object", "properties": {
        "id": {"type": "string"}, "tenant": {"type": "string"}, "name": {"type": "string"},
        "scopes": {"type": "array", "items": {"type": "string"}},
        "created_at": {"type": "string"}, "expires_at": {"type": ["string", "null"]},
        "used_at": {"type": ["string", "null"]}, "key": {"type": "string"}},
        "required": ["id", "tenant", "name", "scopes", "created_at"]},
    "Package": {
        "description": "A package that is installed into a session.",
        "type": "object", "properties": {
        "name": {"type": "string"}, "version": {"type": "string"}},
        "required": ["name", "version"]},
    "Output": {
        "description": "A file that code left in /tmp/output.",
        "type": "object", "properties": {
        "name": {"type": "string"}, "path": {"type": ["string", "null"]},
        "bytes": {"type": "integer"}, "mime": {"type": ["string", "null"]},
        "kind": {"type": "string", "enum": ["text", "image", "data", "binary"]},
        "skipped": {"type": ["string", "null"]}, "modified_at": {"type": ["string", "null"]},
        "id": {"type": ["string", "null"]}, "sha256": {"type": ["string", "null"]},
        "url": {"type": ["string", "null"]}}, "required": ["name", "bytes"]},
    "Artifact": {
        "description": "A saved output, by its id.",
        "type": "object", "properties": {
        "id": {"type": "string"}, "session_id": {"type": "string"}, "name": {"type": "string"},
        "mime": {"type": "string"}, "sha256": {"type": "string"}, "bytes": {"type": "integer"},
        "created_at": {"type": "string"}, "expires_at": {"type": ["string", "null"]},
        "kept": {"type": "boolean"}, "url": {"type": "string"}},
        "required": ["id", "name", "sha256", "bytes", "url"]},
    "RunOutputEvent": {
        "description": "Bytes that a run has printed.",
        "type": "object", "properties": {
        "data": {"type": "string"}, "encoding": {"type": "string", "enum": ["utf8", "base64"]}},
        "required": ["data", "encoding"]},
    "OutputEvent": {
        "description": "Bytes that an execution has printed, from an offset on.",
        "type": "object", "properties": {
        "offset": {"type": "integer"}, "data": {"type": "string"},
        "encoding": {"type": "string", "enum": ["utf8", "base64"]}},
        "required": ["offset", "data", "encoding"]},
    "ValueEvent": {
        "description": "A value of a cell in every form that it has, by MIME type.",
        "type": "object", "properties": {
        "data": {"type": "object", "additionalProperties": true},
        "truncated": {"type": "array", "items": {"type": "string"}},
        "count": {"type": "integer"}}, "required": ["data", "truncated"]},
    "ExceptionEvent": {
        "description": "The exception that ended a cell.",
        "type": "object", "properties": {
        "name": {"type": "string"}, "value": {"type": "string"}, "traceback": {"type": "string"}},
        "required": ["name", "value", "traceback"]},
    "InstallEvent": {
        "description": "A module that a cell imports and that is being installed.",
        "type": "object", "properties": {
        "state": {"type": "string", "enum": ["installing", "installed", "failed"]},
        "package": {"type": "string"},
        "installed": {"type": "array", "items": {"$ref": "#/components/schemas/Package"}},
        "install_note": {"type": "string"}, "install_error": {"type": "object", "properties": {
          "code": {"type": "string"}, "message": {"type": "string"}}}}, "required": ["state"]},
    "ProgressEvent": {
        "description": "A line that the installer has printed.",
        "type": "object", "properties": {"line": {"type": "string"}}, "required": ["line"]},
    "WatchEvent": {
        "description": "The folder or file that is being watched.",
        "type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
    "ChangeEvent": {
        "description": "A change of a file.",
        "type": "object", "properties": {
        "kind": {"type": "string", "enum": ["created", "written", "removed", "renamed_from",
          "renamed_to", "attributes", "overflow"]},
        "path": {"type": "string"}, "type": {"type": "string", "enum": ["file", "folder"]}},
        "required": ["kind", "path", "type"]},
    "ClosedEvent": {
        "description": "Why the stream ends: its key is no longer valid, or a quota is used up.",
        "type": "object", "properties": {
        "code": {"type": "string"}, "message": {"type": "string"},
        "quota": {"type": "string"}}, "required": ["code", "message"]},
    "Event": {
        "description": "Something that happened in a session; each type has members of its own.",
        "type": "object", "properties": {
        "id": {"type": "integer"}, "time": {"type": "string"}, "type": {"type": "string"},
        "session_id": {"type": ["string", "null"]}}, "additionalProperties": true,
        "required": ["id", "time", "type", "session_id"]}
);
/* clang-format on */
