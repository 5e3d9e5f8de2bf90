"""A W&B server on loopback, in memory, for tests: the part of its protocol that the real client speaks.

It takes what `wandb.init(mode="online")` and `wandb sync` send, and answers `wandb.Api`: listings with filters and
whole histories. It is written from what the client asks; of the real backend's quirks it proves nothing.
"""

from __future__ import annotations

import base64
import gzip
import json
import re
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

HANG = -1
"""As a status: take the request and never answer."""
KEY = "0123456789abcdef0123456789abcdef01234567"


@dataclass
class Remote:
    """A run as the server keeps it."""

    id: str
    entity: str
    project: str
    created: float = 1_790_000_000.0
    name: str = ""
    group: str | None = None
    job_type: str | None = None
    tags: list[str] = field(default_factory=list)
    state: str = "running"
    config: dict[str, Any] = field(default_factory=dict)
    summary: dict[str, Any] = field(default_factory=dict)
    history: list[dict[str, Any]] = field(default_factory=list)
    lines: int | None = None
    """What the server says the history's length is, where that is not the truth."""

    def node(self) -> dict[str, Any]:
        """The GraphQL object; JSON texts are texts within it, as the backend has them."""
        counts: dict[str, int] = {}
        for row in self.history:
            for key in row:
                counts[key] = counts.get(key, 0) + 1
        return {
            "id": base64.b64encode(f"Run:v1:{self.id}".encode()).decode(),
            "name": self.id,
            "displayName": self.name or self.id,
            "state": self.state,
            "group": self.group,
            "jobType": self.job_type,
            "tags": self.tags,
            "config": json.dumps({key: {"value": value} for key, value in self.config.items()}),
            "summaryMetrics": json.dumps(self.summary),
            "systemMetrics": "{}",
            "createdAt": _iso(self.created),
            "heartbeatAt": _iso(self.created + len(self.history)),
            "historyLineCount": len(self.history) if self.lines is None else self.lines,
            "historyKeys": {
                "keys": {key: {"typeCounts": [{"type": "number", "count": n}]} for key, n in counts.items()},
                "lastStep": max((row.get("_step", -1) for row in self.history), default=-1),
                "sets": [],
            },
            "sweepName": None,
            "commit": None,
            "readOnly": False,
            "description": None,
            "notes": None,
            "projectId": "1",
            "user": {"name": "local", "username": "local"},
        }


def _iso(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class _Quiet(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that gave up waiting is what hangs are for."""


class WandbServer:
    """Use as a context manager; `url` is what WANDB_BASE_URL must be."""

    def __init__(self) -> None:
        self.runs: dict[tuple[str, str, str], Remote] = {}
        self.calls: list[str] = []
        """Names of the GraphQL operations, in order; a page of history with its first step."""
        self.unknown: list[str] = []
        """Operations that it could not answer: a newer client has begun to ask them."""
        self.key = KEY
        """The key that it takes; any other one is refused with 401."""
        self.duplicated = False
        """Whether listings name the first run of a page twice, as paging over a moving list does."""
        self._faults: dict[str, tuple[int, int]] = {}
        self._lock = threading.Lock()
        self._released = threading.Event()
        self._http = _Quiet(("127.0.0.1", 0), _handler(self))

    def __enter__(self) -> WandbServer:
        threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._released.set()
        self._http.shutdown()
        self._http.server_close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_address[1]}"

    def fail(self, operation: str, status: int, times: int = 1_000_000) -> None:
        """Answers the next `times` calls of a GraphQL operation (`*`: of any) with an HTTP status, or
        `HANG`s."""
        self._faults[operation] = (status, times)

    def fault(self, operation: str) -> int | None:
        for name in (operation, "*"):
            status, times = self._faults.get(name, (0, 0))
            if times:
                self._faults[name] = (status, times - 1)
                return status
        return None

    def hang(self) -> None:
        self._released.wait(600)

    def run(self, v: Mapping[str, Any]) -> Remote | None:
        name = v.get("name") or v.get("run") or v.get("runName")
        return self.runs.get((v.get("entity") or "local", v.get("project") or "uncategorized", name or ""))

    def answer(self, operation: str, query: str, v: dict[str, Any], base: str) -> dict[str, Any] | None:
        """The `data` of an answer, or None for an operation that it does not know."""
        with self._lock:
            known = _OPERATIONS.get(operation)
            if known is not None:
                return known(self, v, base)
            if "__type" in query or operation == "ProbeProjectInput":
                return {
                    "ProjectType": {"fields": [{"name": "internalId"}]},
                    "RunType": {"fields": [{"name": "projectId"}]},
                    "QueryType": {"fields": []},
                    "__type": {"fields": []},
                }
            if "viewer" in query:
                return {
                    "viewer": {
                        "id": "VXNlcjox",
                        "entity": "local",
                        "username": "local",
                        "name": "local",
                        "admin": False,
                        "email": "",
                        "flags": "{}",
                        "deletedAt": None,
                        "teams": {"edges": []},
                        "apiKeys": {"edges": []},
                    }
                }
            self.unknown.append(operation or query)
            return None

    def stream(self, key: tuple[str, str, str], body: dict[str, Any]) -> None:
        """Takes a file-stream request: rows of history at an offset, the summary, the end of the run."""
        with self._lock:
            run = self.runs.get(key)
            if run is None:
                return
            for name, chunk in (body.get("files") or {}).items():
                if name == "wandb-history.jsonl":
                    run.history[chunk["offset"] :] = [json.loads(line) for line in chunk["content"]]
                elif name == "wandb-summary.json" and chunk["content"]:
                    run.summary = json.loads(chunk["content"][-1])
            if body.get("complete"):
                run.state = "finished" if body.get("exitcode") == 0 else "failed"


def _upsert(server: WandbServer, v: dict[str, Any], base: str) -> dict[str, Any]:
    key = (v.get("entity") or "local", v.get("project") or "uncategorized", v.get("name") or v["id"])
    new = key not in server.runs
    run = server.runs.setdefault(key, Remote(key[2], key[0], key[1], created=time.time()))
    for name, entry in json.loads(v.get("config") or "{}").items():
        run.config[name] = entry.get("value") if isinstance(entry, dict) else entry
    run.name = v.get("displayName") or run.name
    run.group = v.get("groupName") or run.group
    run.job_type = v.get("jobType") or run.job_type
    run.tags = v.get("tags") or run.tags
    project = {"id": "1", "name": key[1], "entity": {"id": "1", "name": key[0]}}
    return {"upsertBucket": {"bucket": {**run.node(), "project": project}, "inserted": new}}


def _resume(server: WandbServer, v: dict[str, Any], base: str) -> dict[str, Any]:
    run = server.run(v)
    if run is None:
        return {"model": None}
    tail = json.dumps([json.dumps(run.history[-1])] if run.history else [])
    bucket = {
        **run.node(),
        "logLineCount": 0,
        "eventsLineCount": 0,
        "historyTail": tail,
        "eventsTail": "[]",
        "wandbConfig": '{"t": 1}',
    }
    entity = {"id": "1", "name": v["entity"]}
    return {"model": {"id": "1", "name": v["project"], "entity": entity, "bucket": bucket}}


def _list(server: WandbServer, v: dict[str, Any], base: str) -> dict[str, Any]:
    place = (v["entity"], v["project"])
    if not any(key[:2] == place for key in server.runs):
        return {"project": None}
    wanted = json.loads(v.get("filters") or "{}")
    found = [run for key, run in server.runs.items() if key[:2] == place and _matches(run, wanted)]
    found.sort(key=lambda run: (run.created, run.id))
    first = int(v.get("cursor") or 0)
    page = found[first : first + (v.get("perPage") or 50)]
    end = first + len(page)
    edges = [{"node": run.node(), "cursor": str(first + i + 1)} for i, run in enumerate(page)]
    if server.duplicated and edges:
        edges.insert(0, edges[0])
    info = {"endCursor": str(end), "hasNextPage": end < len(found)}
    runs = {"edges": edges, "pageInfo": info}
    return {"project": {"internalId": "1", "runCount": len(found), "readOnly": False, "runs": runs}}


def _matches(run: Remote, wanted: Mapping[str, Any]) -> bool:
    fields = {"name": run.id, "display_name": run.name, "group": run.group, "tags": run.tags}
    for key, value in wanted.items():
        found = fields[key]
        if isinstance(value, dict):
            ((operator, operand),) = value.items()
            ok = {"$in": found in operand, "$regex": re.search(str(operand), str(found)) is not None}[operator]
        else:
            ok = value in found if isinstance(found, list) else found == value
        if not ok:
            return False
    return True


def _run(server: WandbServer, v: dict[str, Any], base: str) -> dict[str, Any]:
    run = server.run(v)
    return {"project": {"run": None if run is None else run.node()}}


def _parquet(server: WandbServer, v: dict[str, Any], base: str) -> dict[str, Any]:
    run = server.run(v)
    live = [{"_step": 0}] if run is not None and run.history else []
    return {"project": {"run": {"parquetHistory": {"parquetUrls": [], "liveData": live}}}}


def _page(server: WandbServer, v: dict[str, Any], base: str) -> dict[str, Any]:
    run = server.run(v)
    rows = [] if run is None else run.history
    page = [json.dumps(_strings(row)) for row in rows if v["minStep"] <= row.get("_step", 0) < v["maxStep"]]
    return {"project": {"run": {"history": page}}}


def _strings(value: Any) -> Any:
    """NaN and infinities as the backend gives them: as texts."""
    if isinstance(value, dict):
        return {key: _strings(inner) for key, inner in value.items()}
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"
    return value


def _files(server: WandbServer, v: dict[str, Any], base: str) -> dict[str, Any]:
    targets = [{"name": name, "uploadUrl": f"{base}/upload/{name}"} for name in v["files"]]
    return {"createRunFiles": {"runID": "1", "uploadHeaders": [], "files": targets}}


def _features(server: WandbServer, v: dict[str, Any], base: str) -> dict[str, Any]:
    return {"serverInfo": {"features": []}}


def _version(server: WandbServer, v: dict[str, Any], base: str) -> dict[str, Any]:
    latest = {"outOfDate": False, "latestVersionString": "0", "versionOnThisInstanceString": "0"}
    return {"serverInfo": {"cliVersionInfo": {}, "latestLocalVersionInfo": latest}}


_OPERATIONS = {
    "ServerFeaturesQuery": _features,
    "ServerInfo": _version,
    "UpsertBucket": _upsert,
    "RunResumeStatus": _resume,
    "CreateRunFiles": _files,
    "Runs": _list,
    "Run": _run,
    "RunState": _run,
    "RunHistoryKeys": _run,
    "RunParquetHistory": _parquet,
    "HistoryPage": _page,
}


def _handler(server: WandbServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            pass

        def body(self) -> bytes:
            data = self.rfile.read(int(self.headers.get("content-length") or 0))
            return gzip.decompress(data) if self.headers.get("content-encoding") == "gzip" else data

        def send(self, content: object, status: int = 200) -> None:
            data = json.dumps(content).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def do_PUT(self) -> None:
            self.body()
            self.send({})

        def do_GET(self) -> None:
            self.send({}, 404)

        def do_POST(self) -> None:
            data = json.loads(self.body() or b"{}")
            if self.path.rstrip("/") == "/graphql":
                self.graphql(data)
            elif match := re.match(r"/files/([^/]+)/([^/]+)/([^/]+)/file_stream", self.path):
                server.stream((match[1], match[2], match[3]), data)
                self.send({"limits": {}})
            else:
                self.send({}, 404)

        def graphql(self, request: dict[str, Any]) -> None:
            query = request["query"]
            named = re.search(r"(?:query|mutation)\s+(\w+)", query)
            operation = request.get("operationName") or (named[1] if named else "")
            first = (request.get("variables") or {}).get("minStep")
            server.calls.append(operation if first is None else f"{operation} {first}")
            status = server.fault(operation)
            if status == HANG:
                server.hang()
                return
            if status is not None:
                self.send({"error": f"injected {status}"}, status)
                return
            if not self.authorized():
                self.send({"errors": [{"message": "user is not logged in"}]}, 401)
                return
            answer = server.answer(
                operation, query, dict(request.get("variables") or {}), f"http://{self.headers['host']}"
            )
            if answer is None:
                self.send({"errors": [{"message": f"unsupported operation {operation}"}]})
            else:
                self.send({"data": answer})

        def authorized(self) -> bool:
            scheme, _, token = (self.headers.get("authorization") or "").partition(" ")
            return scheme == "Basic" and base64.b64decode(token).decode() == f"api:{server.key}"

    return Handler
