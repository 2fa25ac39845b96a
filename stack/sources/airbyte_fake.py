"""A source of the protocol that does the harm which its config names, where it is asked to read."""
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
    if what == "endless line":
        while True:
            raw("{" + "x" * 65536)
    if what == "endless log":
        while True:
            say(**MESSAGES["LOG"])
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
    if what == "crash":
        say(**record({"id": 1, "changed": 1}))
        os._exit(3)
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
