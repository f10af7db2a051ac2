#!/usr/bin/env python3
"""Runs one command through the arbiter of a xioflow domain, and passes its output on as it comes.

Python 3.9 or later, the standard library, Linux. ../README.md explains it; docs/protocol.md has everything else.
"""

import argparse
import base64
import json
import os
import selectors
import signal
import socket
import stat
import struct
import sys

SIGNALS = {signal.SIGINT, signal.SIGTERM}
STATUS_OF_REFUSAL = {"operation_id_conflict": 76, "resource_conflict": 75, "join_abandoned": 130}


class Failure(Exception):
    """What a person is told, and the exit status that goes with it."""

    def __init__(self, text, status=70):
        super().__init__(text)
        self.status = status


def refused(error):
    """The error object of an answer, or of an end without a result, in words."""
    data = error.get("data") or {}
    kind = data.get("kind", "protocol")
    lines = [f"{kind}: {error['message']}"] + [f"  because {cause}" for cause in data.get("causes", [])]
    lines += [f"  hint: {data['hint']}"] if data.get("hint") else []
    return Failure("\n".join(lines), STATUS_OF_REFUSAL.get(kind, 70))


class Arbiter:
    """One connection: numbered requests out, messages in."""

    def __init__(self, domain):
        self.socket, self.inbox, self.rest, self.last_id = connect(domain), [], b"", 0
        # The release is for people: what has to be the same is the protocol.
        self.call("kernel.hello", {"protocol": 1, "release": "0.1.0", "client": "examples/python"})

    def send(self, method, params, descriptors=()):
        """Sends a request, and returns its id."""
        # The handler of Ctrl-C sends, too, and must not do so in the middle of another line.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
        try:
            self.last_id += 1
            request = {"jsonrpc": "2.0", "id": self.last_id, "method": method, "params": params}
            line = json.dumps(request).encode() + b"\n"
            # Descriptors travel with the first byte; a long line may need more than one go.
            sent = socket.send_fds(self.socket, [line], descriptors) if descriptors else 0
            self.socket.sendall(line[sent:])
            return self.last_id
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def receive(self):
        """Takes in what has come, and waits if that is nothing at all."""
        came = self.socket.recv(1 << 16)
        if not came:
            raise ConnectionResetError
        *lines, self.rest = (self.rest + came).split(b"\n")
        self.inbox += [json.loads(line) for line in lines]

    def answer(self, request):
        """Waits for the answer to a request. What else comes meanwhile stays in the inbox."""
        while True:
            for message in self.inbox:
                # One without an id is about a line that could not be read.
                if "method" not in message and message["id"] in (request, None):
                    self.inbox.remove(message)
                    if "error" in message:
                        raise refused(message["error"])
                    return message["result"]
            self.receive()

    def call(self, method, params):
        return self.answer(self.send(method, params))


def connect(domain):
    """Connects to the domain's socket if it is our own: what we send has our variables in it."""
    try:
        folder = os.open(domain, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        about, there = os.fstat(folder), os.stat("kernel.sock", dir_fd=folder, follow_symlinks=False)
        if about.st_uid != os.geteuid() or about.st_mode & 0o022:
            raise Failure(f"{domain} is not ours alone: somebody else may listen there", 73)
        if there.st_uid != os.geteuid() or not stat.S_ISSOCK(there.st_mode):
            raise Failure(f"{domain}/kernel.sock is no socket of ours", 73)
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        # By the descriptor: the domain's own path may be longer than an address can be (108 bytes).
        connection.connect(f"/proc/self/fd/{folder}/kernel.sock")
        os.close(folder)
    except (FileNotFoundError, ConnectionRefusedError):
        raise Failure(f"no arbiter serves {domain}\n  hint: start one by `xioflow --domain {domain} arbiter`; "
                      f"any `xioflow --domain {domain} run` starts one, too", 73) from None
    peer = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    if struct.unpack("3i", peer)[1] != os.geteuid():
        raise Failure(f"another user listens in {domain}", 73)
    return connection


def text(argument):
    """A string of the system: itself if it is UTF-8, else its bytes."""
    raw = os.fsencode(argument)
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(raw).decode()}


class Stream:
    """A pipe that the arbiter writes and we read, and how much of it was passed on."""

    def __init__(self, name, to):
        (self.reading, self.writing), self.name, self.to, self.passed = os.pipe(), name, to, 0

    def write(self, data):
        """Passes bytes on; false when nobody reads them any more."""
        self.passed += len(data)
        try:
            while data:
                data = data[os.write(self.to, data):]
            return True
        except BrokenPipeError:
            self.passed = sys.maxsize  # No more is wanted.
            return False


def send_with_pipes(arbiter, method, params, stdin=False):
    """Sends a request with a pipe for each stream; the arbiter closes its ends at their end."""
    streams = [Stream("stdout", 1), Stream("stderr", 2)]
    named = {stream.name: stream.writing for stream in streams}
    named.update({"stdin": 0} if stdin else {})
    request = arbiter.send(method, {**params, "output": "descriptors", "descriptors": list(named)}, list(named.values()))
    for stream in streams:
        os.close(stream.writing)
    return request, streams


def submission(options):
    umask = os.umask(0o077)
    os.umask(umask)
    variables = [[text(name), text(value)] for name, value in os.environ.items()]
    program, *arguments = [text(word) for word in options.command]
    return {
        "operationId": options.op,
        "command": {"program": program, "args": arguments, "inheritEnv": True},
        # Without a caller it would have no variables, and the arbiter's umask.
        "caller": {"folder": text(os.getcwd()), "variables": variables, "umask": umask},
        "stdin": {"from": "descriptor" if options.stdin else "null"},
    }


def execute(arbiter, options):
    """Has the command executed, passes its output on, and returns its end and the signals that cancelled it."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)  # From the submission on, Ctrl-C is about that.
    request, streams = send_with_pipes(arbiter, "op.execProcess", submission(options), options.stdin)
    cancelled_by, source = cancel_on_signals(arbiter, request), request
    signal.pthread_sigmask(signal.SIG_SETMASK, before)
    if arbiter.answer(request)["joined"]:
        # Somebody else's submission runs it. Output comes from its beginning to whoever attaches.
        for stream in streams:
            os.close(stream.reading)
        source, streams = send_with_pipes(arbiter, "op.attach", {"operationId": options.op})
    waiting, ended = selectors.DefaultSelector(), None
    waiting.register(arbiter.socket, selectors.EVENT_READ)
    for stream in streams:
        waiting.register(stream.reading, selectors.EVENT_READ, stream)
    while waiting.get_map():
        for message in arbiter.inbox:
            if message.get("method") == "op.result" and message["params"]["request"] == request:
                ended = message["params"]
                if "result" not in ended:
                    raise refused(ended["error"])
                waiting.unregister(arbiter.socket)
        arbiter.inbox.clear()
        for key, _ in waiting.select() if waiting.get_map() else ():
            if key.data is None:
                arbiter.receive()
                continue
            data = os.read(key.fd, 1 << 16)
            if data and key.data.write(data):
                continue
            waiting.unregister(key.fd)
            os.close(key.fd)  # The arbiter may be waiting for room in it.
            if data:
                # So that the command sees what it would have seen without us: SIGPIPE.
                arbiter.send("op.closeStream", {"request": source, "stream": key.data.name})
    for stream in streams:
        pass_on_stored(arbiter, ended["operationId"], stream, ended["result"][f"{stream.name}Bytes"])
    return ended, cancelled_by


def pass_on_stored(arbiter, operation, stream, length):
    """What did not come live; of an operation that was over before we asked, that is all."""
    while stream.passed < length:
        part = arbiter.call("artifacts.read", {"operationId": operation, "stream": stream.name, "from": stream.passed})
        if not part["base64"]:
            print(f"client: {stream.name} is not stored from byte {stream.passed} on", file=sys.stderr)
            return
        stream.write(base64.b64decode(part["base64"]))


def cancel_on_signals(arbiter, request):
    """The first Ctrl-C asks the command to end, the second kills it. The result says what came of it."""
    came = []

    def cancel(number, _frame):
        asked = "interrupt" if number == signal.SIGINT else "terminate"
        arbiter.send("op.stop", {"request": request, "manner": "kill" if came else asked})
        came.append(number)

    signal.signal(signal.SIGINT, cancel)
    signal.signal(signal.SIGTERM, cancel)
    return came


def exit_status(result, cancelled_by):
    """As `xioflow run` has it: the command's own where there is one, else 128 and the number of a signal."""
    if result["status"] == "indeterminate":
        return 79
    if result["status"] == "cancelled":
        return 128 + (cancelled_by or [signal.SIGINT])[0]
    if result["exitCode"] is not None:
        return result["exitCode"]
    return 128 + getattr(signal, result["signal"] or "", -49)  # No number of a signal: 79, it cannot be told.


def main():
    parser = argparse.ArgumentParser(description="Runs one command through the arbiter of a xioflow domain.")
    parser.add_argument("--domain", default=os.environ.get("XIOFLOW_DOMAIN") or ".xioflow", help="its folder")
    parser.add_argument("--op", help="id of the operation: the same id again returns the recorded result")
    parser.add_argument("--stdin", action="store_true", help="give the command our standard input")
    parser.add_argument("command", nargs="+", help="the command and its arguments, after --")
    options = parser.parse_args()
    try:
        ended, cancelled_by = execute(Arbiter(options.domain), options)
    except (BrokenPipeError, ConnectionResetError):
        print("client: the arbiter went away; the next one settles what ran (`xioflow list`)", file=sys.stderr)
        return 70
    except (Failure, OSError) as failure:
        print(f"client: {failure}", file=sys.stderr)
        return getattr(failure, "status", 70)
    result = ended["result"]
    if result["spawnFailure"]:
        print(f"client: {result['spawnFailure']['message']}", file=sys.stderr)
    exit_code = "null" if result["exitCode"] is None else result["exitCode"]
    print(f"client: {ended['operationId']}: status {result['status']}, exitCode {exit_code}, "
          f"treeSettlement {result['treeSettlement']}", file=sys.stderr)
    return exit_status(result, cancelled_by)


if __name__ == "__main__":
    sys.exit(main())
