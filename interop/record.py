"""A server's stdio through a pipe that writes down every message: record.py OURS OUT COMMAND...

OURS is the side that is barewire, `server` or `client`; OUT gets the process id and `.ndjson` behind it, because a client may
start a server more than once. The lines are those that `validate` reads.
"""

import json
import os
import subprocess
import sys
import threading

PATIENCE = 1.5  # Shorter than the SDKs' own, which end a server that stays with a signal.


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
    # Ends by itself, or is asked to by the end of its input.
    while downward.is_alive() and child.poll() is None:
        downward.join(0.05)
    try:
        code = child.wait(PATIENCE)
        if code and ours == "server":
            note(**{"from": "server", "ours": True, "fault": f"exit code {code}"})
    except subprocess.TimeoutExpired:
        if ours == "server":
            note(**{"from": "server", "ours": True, "fault": f"still there {PATIENCE} s after the end of its input"})
        child.kill()
        code = child.wait()
    upward.join(1)
    return code


sys.exit(main())
