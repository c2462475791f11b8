"""A report of `barewire check` as JSON -> one line: the server, its SDK, and the checks that fail by origin, without those
that the baseline has as failing only sometimes: origins.py NAME FILE BASELINE"""

import json
import sys

name, file, baseline = sys.argv[1:]
with open(file) as opened:
    report = json.load(opened)
with open(baseline) as opened:
    sometimes = {it["check"] for it in json.load(opened)["findings"] if it.get("sometimes")}


def failed(origin: str) -> str:
    fails = lambda it: any(found["origin"] == origin for found in it.get("findings", []))
    checks = [it["id"] for it in report["checks"] if it["id"] not in sometimes and fails(it)]
    return " ".join(sorted(checks)) or "-"


print(f"{name}: {report['sdk'] or 'unknown'}; author: {failed('author')}; sdk: {failed('sdk')}")
