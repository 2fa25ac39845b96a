"""A source of the protocol that does what its config says: a world in a file of its folder, or harm."""
import json
import os
import socket
import sys
import time

COMMAND = sys.argv[1]


def option(name):
    return sys.argv[sys.argv.index(name) + 1] if name in sys.argv else None


def say(**message):
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def raw(text):
    sys.stdout.write(text)
    sys.stdout.flush()


def record(row, stream="t"):
    return {"type": "RECORD", "record": {"stream": stream, "data": row, "emitted_at": 1}}


def state(value, name="t", **more):
    descriptor = {"stream_descriptor": {"name": name}, "stream_state": value}
    return {"type": "STATE", "state": {"type": "STREAM", "stream": descriptor, **more}}


def status(value, name="t"):
    said = {"stream_descriptor": {"name": name}, "status": value}
    return {"type": "TRACE", "trace": {"type": "STREAM_STATUS", "emitted_at": 1, "stream_status": said}}


def error(kind, text):
    said = {"message": text, "internal_message": text, "stack_trace": text, "failure_type": kind}
    return {"type": "TRACE", "trace": {"type": "ERROR", "emitted_at": 1, "error": said}}


PROPERTIES = {
    "id": {"type": "integer"},
    "amount": {"type": ["null", "number"]},
    "note": {"type": ["null", "string"]},
    "born": {"type": ["null", "string"], "format": "date"},
    "changed": {"type": "integer"},
    "tags": {"type": ["null", "array"]},
}


def catalog(**more):
    stream = {
        "name": "t",
        "json_schema": {"type": "object", "properties": PROPERTIES},
        "supported_sync_modes": ["full_refresh", "incremental"],
        "source_defined_cursor": True,
        "default_cursor_field": ["changed"],
        "source_defined_primary_key": [["id"]],
        **more,
    }
    return {"type": "CATALOG", "catalog": {"streams": [stream]}}


MESSAGES = {
    "RECORD": record({"id": 1, "changed": 1}),
    "STATE": state({"changed": 1}),
    "LOG": {"type": "LOG", "log": {"level": "INFO", "message": "hello"}},
    "TRACE": status("STARTED"),
    "CATALOG": catalog(),
    "SPEC": {"type": "SPEC", "spec": {"connectionSpecification": {"type": "object", "required": []}}},
    "CONNECTION_STATUS": {"type": "CONNECTION_STATUS", "connectionStatus": {"status": "SUCCEEDED"}},
    "CONTROL": {"type": "CONTROL", "control": {"type": "CONNECTOR_CONFIG"}},
}


def read_rows(rows, fails_after=None, delay=0):
    """At least once: what has the position's own number comes again, and some rows come twice."""
    after = -1
    given = option("--state")
    if given:
        for one in json.load(open(given)):
            after = one["stream"]["stream_state"]["changed"]
    found = sorted((row for row in rows if row["changed"] >= after), key=lambda row: row["changed"])
    sent = 0
    say(**status("STARTED"))
    for place, row in enumerate(found):
        say(**record(row))
        sent += 1
        if place % 3 == 0:
            say(**record(row))
            sent += 1
        if fails_after is not None and place >= fails_after:
            os._exit(1)
        if place % 4 == 3:
            say(**state({"changed": row["changed"]}, sourceStats={"recordCount": float(sent)}))
            sent = 0
        time.sleep(delay)
    if found:
        say(**state({"changed": found[-1]["changed"]}, sourceStats={"recordCount": float(sent)}))
    elif given:
        say(**state({"changed": after}))
    say(**status("COMPLETE"))


def attempt(action):
    try:
        action()
        return "done"
    except BaseException as problem:  # noqa: BLE001
        return type(problem).__name__


def probe(config):
    """One row for each thing that it should not do."""

    def dial(host, port):
        with socket.create_connection((host, port), timeout=3):
            pass

    def by_proxy(place):
        proxy = os.environ["http_proxy"].rsplit("/", 1)[1].split(":")
        with socket.create_connection((proxy[0], int(proxy[1])), timeout=30) as line:
            line.sendall(f"CONNECT {place} HTTP/1.1\r\nHost: {place}\r\n\r\n".encode())
            answer = line.recv(200).split(b"\r\n")[0].decode()
            if " 200 " not in answer:
                raise PermissionError(answer)

    tries = {
        "read passwd": lambda: open("/etc/passwd").read(),
        "read secret": lambda: open(config["secret_file"]).read(),
        "list tmp": lambda: os.listdir("/tmp"),
        "list proc": lambda: os.listdir("/proc"),
        "write code": lambda: open(os.path.join(os.path.dirname(__file__), "left"), "w"),
        "write tmp": lambda: open("/tmp/left", "w"),
        "write own": lambda: open(os.path.join(os.environ["HOME"], "mine"), "w"),
        "fill own": lambda: open(os.path.join(os.environ["HOME"], "fill"), "wb").write(b"x" * (80 << 20)),
        "unix socket": lambda: socket.socket(socket.AF_UNIX),
        "vsock": lambda: socket.socket(socket.AF_VSOCK),
        "raw socket": lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1),
        "dial": lambda: dial("127.0.0.1", config["port"]),
        "dial public": lambda: dial("192.0.2.1", 80),
        "proxy refused": lambda: by_proxy(f"169.254.169.254:80"),
        "proxy allowed": lambda: by_proxy(f"127.0.0.1:{config['port']}"),
        "kill all": lambda: os.kill(1, 9),
        "become root": lambda: os.setuid(0),
        "mount": lambda: os.mkdir("/dev/shm/m") or os.unshare(0x00020000) if hasattr(os, "unshare") else (_ for _ in ()).throw(OSError()),
        "environment": lambda: (_ for _ in ()).throw(OSError()) if "SLUICE_SECRET" not in os.environ else None,
    }
    for place, (name, action) in enumerate(tries.items()):
        say(**record({"id": place, "note": f"{name}: {attempt(action)}", "changed": 1}))


def orphan():
    """A grandchild that has left its family, and would talk on."""
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            open(os.path.join(os.environ["HOME"], "orphan"), "w")
            time.sleep(3600)
        os._exit(0)


def bomb():
    while True:
        try:
            os.fork()
        except OSError:
            time.sleep(0.1)


def harm(config):
    what = config["do"]
    secret = config.get("secret", "")
    name, _, way = what.partition(" ")
    if name in MESSAGES:
        text = json.dumps(MESSAGES[name])
        if way == "cut":
            raw(text[: len(text) // 2] + "\n")
        elif way == "open":
            raw(text[: len(text) // 2])
        elif way == "hollow":
            raw(json.dumps({"type": name}) + "\n")
        elif way == "wrong":
            raw(json.dumps({"type": name, **{key: [1] for key in MESSAGES[name] if key != "type"}}) + "\n")
        elif way == "again":
            for _ in range(3):
                raw(text + "\n")
        return
    if what == "endless line":
        while True:
            raw("{" + "x" * 65536)
    if what == "endless log":
        while True:
            say(**MESSAGES["LOG"])
    if what == "endless rubbish":
        while True:
            raw("\0rubbish \xff\n")
    if what == "huge row":
        say(**record({"id": 1, "note": "x" * (5 << 20), "changed": 1}))
    if what == "huge state":
        say(**state({"changed": 1, "x": "y" * (60 << 10)}))
    if what == "deep row":
        raw('{"type":"RECORD","record":{"stream":"t","emitted_at":1,"data":{"id":1,"changed":1,"tags":' + "[" * 100000 + "]" * 100000 + "}}}\n")
    if what == "silent":
        time.sleep(3600)
    if what == "memory":
        held = []
        while True:
            held.append(bytearray(os.urandom(1 << 20)) * 8)
    if what == "bomb":
        bomb()
    if what == "orphan":
        orphan()
        say(**record({"id": 1, "changed": 1}))
    if what == "secrets":
        for level in ("DEBUG", "INFO", "ERROR", "FATAL"):
            say(type="LOG", log={"level": level, "message": secret, "stack_trace": secret})
        raw(secret + "\n")
        sys.stderr.write(secret * 1000)
        say(**error("config_error", secret))
        sys.exit(1)
    if what == "other stream":
        say(**record({"id": 1, "changed": 1}, stream="others"))
    if what == "other state":
        say(**state({"changed": 1}, name="others"))
    if what == "wrong count":
        say(**record({"id": 1, "changed": 1}))
        say(**state({"changed": 1}, sourceStats={"recordCount": 7}))
    if what == "incomplete":
        say(**record({"id": 1, "changed": 1}))
        say(**status("INCOMPLETE"))
    if what == "crash":
        say(**record({"id": 1, "changed": 1}))
        os._exit(3)
    if what.endswith("_error"):
        say(**error(what, secret))
        sys.exit(1)
    if what == "probe":
        probe(config)


config = json.load(open(option("--config"))) if option("--config") else {}
if COMMAND == "spec":
    say(**MESSAGES["SPEC"])
elif COMMAND == config.get("in", "read") and "do" in config:
    harm(config)
elif COMMAND == "check":
    say(**MESSAGES["CONNECTION_STATUS"])
elif COMMAND == "discover":
    say(**catalog())
elif COMMAND == "read":
    world = json.load(open(os.path.join(os.path.dirname(__file__), "world.json")))
    read_rows(world["rows"], world.get("fails_after"), world.get("delay", 0))
