/* nouns.c - the objects of docs/rest.md as JSON Schema, for the OpenAPI document. */
#include "api/front/row_text.h"
#include "api/rest/rest_private.h"

/* clang-format off */
const char rest_nouns[] = JSON(
    "Error": {"type": "object", "properties": {
        "error": {"type": "object", "properties": {"code": {"type": "string"},
          "message": {"type": "string"}, "field": {"type": "string"},
          "line": {"type": "integer"}, "column": {"type": "integer"},
          "nearest": {"type": ["string", "null"]}, "retry_after_s": {"type": "integer"},
          "ended_at": {"type": ["string", "null"]}, "reason": {"type": ["string", "null"]},
          "execution_id": {"type": "string"}, "stage": {"type": "string"},
          "errno": {"type": "string"}, "first": {"type": "integer"},
          "bytes": {"type": "integer"}}, "required": ["code", "message"]}}, "required": ["error"]},
    "Info": {"type": "object", "properties": {
        "version": {"type": "string"}, "runtime": {"type": "string"},
        "launcher_pid": {"type": "integer"}, "broker_pid": {"type": "integer"},
        "generation": {"type": "integer"}, "socket": {"type": ["string", "null"]},
        "state": {"type": ["string", "null"]}, "started_at": {"type": "string"},
        "sessions": {"type": "integer"}, "max_sessions": {"type": "integer"},
        "limits": {"type": "object"}, "languages": {"type": "array", "items": {"type": "string"}},
        "libraries": {"type": "object"}},
        "required": ["version", "launcher_pid", "broker_pid", "sessions"]},
    "Tool": {"type": "object", "properties": {
        "name": {"type": "string"}, "title": {"type": "string"}, "category": {"type": "string"},
        "description": {"type": "string"}, "parameters": {"type": "object"},
        "annotations": {"type": "object"}},
        "required": ["name", "title", "category", "description", "parameters", "annotations"]},
    "Dataset": {"type": "object", "properties": {
        "name": {"type": "string"}, "path": {"type": "string"}, "bytes": {"type": "integer"}},
        "required": ["name", "path", "bytes"]},
    "Session": {"type": "object", "properties": {
        "id": {"type": "string"}, "tenant": {"type": "string"},
        "name": {"type": ["string", "null"]}, "template": {"type": ["string", "null"]},
        "state": {"type": "string", "enum": ["new", "starting", "ready", "ending", "ended"]},
        "created_at": {"type": "string"}, "last_used_at": {"type": "string"},
        "expires_at": {"type": ["string", "null"]}, "idle_timeout_s": {"type": "number"},
        "ended_at": {"type": ["string", "null"]}, "end_reason": {"type": ["string", "null"]},
        "provider": {"type": "string"},
        "env": {"type": "object"}, "datasets": {"type": "array"}, "running": {"type": "integer"},
        "executions": {"type": "integer"}, "output_folder": {"type": ["string", "null"]},
        "limits": {"type": "object"}, "isolation": {"type": ["object", "null"]},
        "type": {"type": "string"},
        "settings": {"type": "object", "additionalProperties": {"type": "string"}}},
        "required": ["id", "state"]},
    "Process": {"type": "object", "properties": {
        "execution_id": {"type": "string"},
        "kind": {"type": "string", "enum": ["command", "cell"]}, "context": {"type": "string"},
        "number": {"type": "integer"}, "argv": {"type": "array", "items": {"type": "string"}},
        "state": {"type": "string", "enum": ["waiting", "running", "exited", "failed"]},
        "started_at": {"type": ["string", "null"]}, "ended_at": {"type": ["string", "null"]},
        "exit_code": {"type": ["integer", "null"]}, "signal": {"type": ["integer", "null"]},
        "timed_out": {"type": "boolean"}, "background": {"type": "boolean"},
        "pty": {"type": "boolean"}, "stdout_bytes": {"type": "integer"},
        "stderr_bytes": {"type": "integer"}, "error": {"type": ["object", "null"]}},
        "required": ["execution_id", "state"]},
    "Result": {"type": "object", "properties": {
        "stdout": {"type": "string"}, "stderr": {"type": "string"},
        "exit_code": {"type": "integer"}, "duration": {"type": "number"},
        "meta": {"type": "object"}},
        "required": ["stdout", "stderr", "exit_code", "duration", "meta"]},
    "CellResult": {"type": "object", "properties": {
        "stdout": {"type": "string"}, "stderr": {"type": "string"},
        "exit_code": {"type": "integer"}, "duration": {"type": "number"},
        "results": {"type": "array", "items": {"type": "object",
          "properties": {"type": {"type": "string", "enum": ["result", "display"]},
          "data": {"type": "object"}, "truncated": {"type": "array",
          "items": {"type": "string"}}}}},
        "error": {"type": ["object", "null"], "properties": {"name": {"type": "string"},
          "value": {"type": "string"}, "traceback": {"type": "string"}}},
        "execution_count": {"type": ["integer", "null"]}, "meta": {"type": "object"}},
        "required": ["stdout", "stderr", "exit_code", "duration", "results", "error", "meta"]},
    "Context": {"type": "object", "properties": {
        "id": {"type": "string"}, "name": {"type": ["string", "null"]},
        "language": {"type": "string"},
        "state": {"type": "string", "enum": ["new", "idle", "busy", "dead"]},
        "cells": {"type": "integer"}, "pid": {"type": ["integer", "null"]},
        "warm": {"type": "boolean"}, "started_at": {"type": ["string", "null"]},
        "last_used_at": {"type": ["string", "null"]}, "default": {"type": "boolean"},
        "cwd": {"type": "string"}, "note": {"type": ["string", "null"]}},
        "required": ["id", "language", "state"]},
    "Entry": {"type": "object", "properties": {
        "name": {"type": "string"},
        "type": {"type": "string", "enum": ["file", "folder", "symlink", "other"]},
        "bytes": {"type": "integer"}, "mode": {"type": "string"},
        "modified_at": {"type": "string"}},
        "required": ["name", "type", "bytes", "mode", "modified_at"]},
    "Template": {"type": "object", "properties": {
        "name": {"type": "string"}, "description": {"type": "string"},
        "state": {"type": "string", "enum": ["built", "not_built", "stale"]},
        "layer": {"type": ["string", "null"]}, "python": {"type": ["string", "null"]},
        "packages": {"type": "array", "items": {"type": "object"}}, "bytes": {"type": "integer"},
        "files": {"type": "integer"}, "tiers": {"type": "array", "items": {"type": "object"}},
        "env": {"type": "object"}, "built_at": {"type": ["string", "null"]},
        "used_by": {"type": "integer"}, "was_there": {"type": "boolean"}},
        "required": ["name", "state"]},
    "Key": {"type": "object", "properties": {
        "id": {"type": "string"}, "tenant": {"type": "string"}, "name": {"type": "string"},
        "scopes": {"type": "array", "items": {"type": "string"}},
        "created_at": {"type": "string"}, "expires_at": {"type": ["string", "null"]},
        "used_at": {"type": ["string", "null"]}, "key": {"type": "string"}},
        "required": ["id", "tenant", "name", "scopes", "created_at"]},
    "Package": {"type": "object", "properties": {
        "name": {"type": "string"}, "version": {"type": "string"}},
        "required": ["name", "version"]},
    "Output": {"type": "object", "properties": {
        "name": {"type": "string"}, "path": {"type": ["string", "null"]},
        "bytes": {"type": "integer"}, "mime": {"type": ["string", "null"]},
        "kind": {"type": "string", "enum": ["text", "image", "data", "binary"]},
        "skipped": {"type": ["string", "null"]}, "modified_at": {"type": ["string", "null"]},
        "id": {"type": ["string", "null"]}, "sha256": {"type": ["string", "null"]},
        "url": {"type": ["string", "null"]}}, "required": ["name", "bytes"]},
    "Artifact": {"type": "object", "properties": {
        "id": {"type": "string"}, "session_id": {"type": "string"}, "name": {"type": "string"},
        "mime": {"type": "string"}, "sha256": {"type": "string"}, "bytes": {"type": "integer"},
        "created_at": {"type": "string"}, "expires_at": {"type": ["string", "null"]},
        "kept": {"type": "boolean"}, "url": {"type": "string"}},
        "required": ["id", "name", "sha256", "bytes", "url"]}
);
/* clang-format on */
