"""Runs a server on stdio and records every message: record.py OURS OUT COMMAND...

OURS is the side that is barewire, `server` or `client`. The process id and `.ndjson` are appended to OUT, because a client may
start a server more than once. The lines have the format of `validate`.
"""

import json
import os
import subprocess
import sys
import threading

EXIT_TIMEOUT = 1.5  # Shorter than the timeout of the SDKs, which then end the server with a signal.


def main() -> int:
    ours, out, *command = sys.argv[1:]
    log = open(f"{out}-{os.getpid()}.ndjson", "w", encoding="utf-8")
    lock = threading.Lock()

    def note(**line: object) -> None:
        with lock:
            log.write(json.dumps(line) + "\n")
            log.flush()

    def relay(source, target, side: str) -> None:
        for line in iter(source.readline, b""):
            try:
                note(**{"from": side, "ours": side == ours, "message": json.loads(line)})
            except ValueError:
                if line.strip():
                    note(**{"from": side, "ours": side == ours, "fault": f"not JSON: {line!r}"})
            try:
                target.write(line)
                target.flush()
            except BrokenPipeError:
                break
        try:
            target.close()
        except BrokenPipeError:
            pass

    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    upward = threading.Thread(target=relay, args=(child.stdout, sys.stdout.buffer, "server"), daemon=True)
    upward.start()
    downward = threading.Thread(target=relay, args=(sys.stdin.buffer, child.stdin, "client"), daemon=True)
    downward.start()
    # The server exits by itself, or because its input ends.
    while downward.is_alive() and child.poll() is None:
        downward.join(0.05)
    try:
        code = child.wait(EXIT_TIMEOUT)
        if code and ours == "server":
            note(**{"from": "server", "ours": True, "fault": f"exit code {code}"})
    except subprocess.TimeoutExpired:
        if ours == "server":
            note(**{"from": "server", "ours": True, "fault": f"still running {EXIT_TIMEOUT} s after the end of its input"})
        child.kill()
        code = child.wait()
    upward.join(1)
    return code


sys.exit(main())
