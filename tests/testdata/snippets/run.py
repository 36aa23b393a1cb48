# Runs the snippets of the documents that are in Python. snippets_test.go says what comes in and goes out.
import json, sys, traceback
import redis

task = json.load(sys.stdin)
page = None
for i, snippet in enumerate(task["snippets"]):
    if snippet["page"] != page:
        page = snippet["page"]
        redis.Redis(port=task["port"]).flushall()
    print("\x01%d" % i, flush=True)
    try:
        exec(compile(snippet["code"], snippet["where"], "exec"), {"__name__": "__main__"})
    except BaseException:
        print("\x02" + traceback.format_exc(), flush=True)
