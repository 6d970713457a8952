"""An MCP server over standard input and output, for tests: it follows the protocol exactly, and has every fault.

The first argument is its mode:

- `plain` speaks the revisions with a handshake; `first` the oldest of them alone, `silent` does not answer what comes
  before `initialize`, `strict` ends when anything does;
- `stateless` speaks 2026-07-28 alone, `both` that and the ones before, `future` a revision that nobody speaks;
- `dead`, `mute`, `old`, `endless`, `listless` are faults of its beginning.
"""

import json
import os
import sys
import threading
import time

MODE = sys.argv[1] if len(sys.argv) > 1 else "plain"
VERSIONS = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"]
STATELESS = "2026-07-28"
SPEAKS = {"stateless": [STATELESS], "both": [STATELESS, *reversed(VERSIONS)], "future": ["2027-01-01"]}.get(MODE, [])
META = "io.modelcontextprotocol/"
NAMES = [
    "echo", "note", "slow", "hang", "crash", "flood", "garbage", "long", "deaf", "kinds", "cite", "ask", "fail",
    "error", "change", "cancelled", "environment", "strange", "spawn",
]
if SPEAKS:
    NAMES.append("violations")

writing = threading.Lock()
cancelled = []
replies = {}
extra = []
# Requests of a stateless revision: their results state that they are complete.
stateless = set()
initialized = False
# Violations by a client of a stateless revision.
violations = []
subscription = None


def write(text):
    with writing:
        sys.stdout.write(text + "\n")
        sys.stdout.flush()


def send(message):
    write(json.dumps({"jsonrpc": "2.0", **message}))


def answer(id, result):
    if is_stateless(id):
        result = {"resultType": "complete", **result,
                  "_meta": {META + "serverInfo": {"name": "standin", "version": "1"}}}
    send({"id": id, "result": result})


def fail(id, code, message, data=None):
    send({"id": id, "error": {"code": code, "message": message, **({"data": data} if data else {})}})


def is_stateless(id):
    return str(id) in stateless


def said(id, *texts, failed=False):
    answer(id, {"content": [{"type": "text", "text": text} for text in texts], "isError": failed})


def tool(name):
    schema = {"type": "object", "properties": {"text": {"type": "string"}}}
    return {"name": name, "description": f"The tool {name}.", "inputSchema": schema,
            "annotations": {"readOnlyHint": True}}


def listed(id, params):
    # Lists of a stateless revision state how long they are valid.
    page = {"ttlMs": 0, "cacheScope": "public"} if is_stateless(id) else {}
    if MODE == "listless":
        return answer(id, {"tools": "none"})
    if MODE == "endless":
        return answer(id, {"tools": [tool(f"t{params.get('cursor', '')}")],
                           "nextCursor": params.get("cursor", "") + "x"})
    if params.get("cursor") == "2":
        return answer(id, {"tools": [tool(name) for name in NAMES[2:] + extra], **page})
    answer(id, {"tools": [tool(name) for name in NAMES[:2]], "nextCursor": "2", **page})


def call(id, params):
    name, arguments = params.get("name"), params.get("arguments", {})
    token = params.get("_meta", {}).get("progressToken")
    text = arguments.get("text", "")
    if name == "echo":
        said(id, text)
    elif name == "note":
        # One line of a file for each run, so that a test can count them.
        with open(arguments.get("file", "/workspace/notes.txt"), "a") as notes:
            notes.write(text + "\n")
        time.sleep(float(arguments.get("seconds", 0)))
        said(id, f"noted {text}")
    elif name == "slow":
        for step in range(int(text or "3")):
            send({"method": "notifications/progress", "params": {"progressToken": token, "progress": step}})
            time.sleep(0.05)
        said(id, "at last")
    elif name == "hang":
        if "file" in arguments:
            open(arguments["file"], "w").close()
        send({"method": "notifications/message", "params": {"level": "info", "data": "it hangs"}})
    elif name == "crash":
        sys.stderr.write("the disk of the registry broke\n")
        sys.stderr.flush()
        os._exit(3)
    elif name == "flood":
        while True:
            write("x" * 60_000)
    elif name == "garbage":
        for line in ["", "{", "[]", "7", "null", "\x00\x1b[31m", '{"id": 99999, "result": {}}', '{"id": []}', "é" * 50]:
            write(line)
        with writing:
            sys.stdout.flush()
            sys.stdout.buffer.write(b"\xff\xfe\n")
            sys.stdout.buffer.flush()
        said(id, "after it all")
    elif name == "long":
        write("x" * 5_000_000)
    elif name == "deaf":
        time.sleep(3600)
    elif name == "kinds":
        answer(id, {"content": [
            {"type": "text", "text": "words\u001b[1m"},
            {"type": "image", "data": "AAAA", "mimeType": "image/png"},
            {"type": "resource", "resource": {"uri": "act:7", "text": "The act."}},
        ], "structuredContent": {"a": 1}})
    elif name == "cite":
        answer(id, {"content": [
            {"type": "text", "text": "Two sources."},
            {"type": "resource_link", "uri": "https://registry.example.org/acts/89", "name": "Act 89",
             "description": "The notice period is three months."},
            {"type": "resource", "resource": {"uri": "file:///workspace/lease.txt", "text": "The rent is 18,500."}},
        ]})
    elif name == "ask" and is_stateless(id):
        answer(id, {"resultType": "input_required", "inputRequests": {"roots": {"method": "roots/list"}}})
    elif name == "violations":
        said(id, json.dumps(violations))
    elif name == "ask":
        send({"id": "p", "method": "ping"})
        send({"id": "s", "method": "sampling/createMessage", "params": {}})
        send({"id": "r", "method": "roots/list"})
        threading.Thread(target=asked, args=[id]).start()
    elif name == "fail":
        said(id, "no such act", failed=True)
    elif name == "error":
        send({"id": id, "error": {"code": -32602, "message": "the act has no number"}})
    elif name == "change":
        extra.append("fresh")
        changed = {"method": "notifications/tools/list_changed"}
        if not is_stateless(id):
            send(changed)
        elif subscription is not None:
            send({**changed, "params": {"_meta": {META + "subscriptionId": subscription}}})
        said(id, "changed")
    elif name == "cancelled":
        said(id, json.dumps(cancelled))
    elif name == "environment":
        said(id, json.dumps({"cwd": os.getcwd(), "argv": sys.argv[1:], "uid": os.getuid(), "pid": os.getpid(),
                             "environment": dict(os.environ)}))
    elif name == "strange":
        answer(id, {"content": 7})
    elif name == "spawn":
        # A process that would outlive it.
        if os.fork() == 0:
            os.setsid()
            os.execvp("sleep", ["sleep", "3599"])
        said(id, "spawned")
    elif name == "fresh" and extra:
        said(id, "it is new")
    else:
        send({"id": id, "error": {"code": -32602, "message": "Unknown tool"}})


def attempt(id, params):
    try:
        call(id, params)
    except OSError as error:
        said(id, str(error), failed=True)


def asked(id):
    until = time.time() + 5
    while len(replies) < 3 and time.time() < until:
        time.sleep(0.01)
    said(id, json.dumps(replies, sort_keys=True))


def refuses(method, id, meta):
    """Returns whether a request of a stateless revision is malformed."""
    version = meta.get(META + "protocolVersion")
    if version is None or not isinstance(meta.get(META + "clientCapabilities"), dict):
        fail(id, -32602, "Invalid params: the request says no revision or no capabilities")
    elif version not in SPEAKS or version != STATELESS:
        fail(id, -32022, "Unsupported protocol version", {"supported": SPEAKS, "requested": version})
    elif method not in ("server/discover", "subscriptions/listen", "tools/list", "tools/call"):
        violations.append(method)
        fail(id, -32601, "Method not found")
    else:
        return False
    return True


def take_stateless(message):
    """Takes a message of a stateless revision; returns whether it was one."""
    global subscription
    method, id = message.get("method"), message.get("id")
    meta = message.get("params", {}).get("_meta", {})
    if not SPEAKS or initialized or method == "initialize" and MODE == "both":
        return False
    if method is None or id is None and method != "notifications/cancelled":
        violations.append(method or "response")
    elif id is None:
        cancelled.append(message["params"]["requestId"])
    elif not refuses(method, id, meta):
        stateless.add(str(id))
        if method == "server/discover":
            answer(id, {"supportedVersions": SPEAKS, "capabilities": {"tools": {"listChanged": True}},
                        "ttlMs": 0, "cacheScope": "public"})
        elif method == "subscriptions/listen":
            subscription = id
            send({"method": "notifications/subscriptions/acknowledged", "params": {
                "_meta": {META + "subscriptionId": id}, "notifications": message["params"]["notifications"]}})
        else:
            return False
    return True


def take(message):
    global initialized
    method, id = message.get("method"), message.get("id")
    if MODE == "strict" and not initialized and method not in ("initialize", "notifications/initialized"):
        sys.exit(5)
    if take_stateless(message):
        return
    if method is None:
        replies[str(id)] = message.get("result", message.get("error", {}).get("code"))
    elif method == "initialize" and MODE != "mute":
        version = message["params"]["protocolVersion"]
        speaks = VERSIONS[:1] if MODE == "first" else VERSIONS
        version = "1999-01-01" if MODE == "old" else version if version in speaks else speaks[-1]
        answer(id, {"protocolVersion": version, "capabilities": {"tools": {"listChanged": True}},
                    "serverInfo": {"name": "standin", "version": "1"}})
    elif method == "notifications/initialized":
        initialized = True
    elif method == "notifications/cancelled":
        cancelled.append(message["params"]["requestId"])
    elif method == "ping":
        answer(id, {})
    elif not initialized and not is_stateless(id):
        if id is not None and MODE not in ("mute", "silent"):
            send({"id": id, "error": {"code": -32600, "message": "not initialized"}})
    elif method == "tools/list":
        listed(id, message.get("params", {}))
    elif method == "tools/call":
        params = message.get("params", {})
        if params.get("name") in ("deaf", "crash"):
            call(id, params)
        else:
            threading.Thread(target=attempt, args=[id, params], daemon=True).start()
    elif id is not None:
        send({"id": id, "error": {"code": -32601, "message": "Method not found"}})


if MODE == "dead":
    sys.stderr.write("there is no registry here\n")
    sys.exit(4)
for line in sys.stdin:
    take(json.loads(line))
