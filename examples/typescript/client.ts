// Runs one command through the arbiter of a xioflow domain, and passes its output on as it comes.
// Node 18.3 or later, its own modules, Linux. ../README.md explains it; docs/protocol.md has everything else.

import { once } from "node:events";
import * as fs from "node:fs";
import * as net from "node:net";
import * as os from "node:os";
import { parseArgs } from "node:util";

type StreamName = "stdout" | "stderr";
interface Fault { message: string; data?: { kind: string; causes?: string[]; hint?: string | null } | null }
interface Result {
  status: string; exitCode: number | null; signal: string | null; treeSettlement: string;
  spawnFailure: { message: string } | null; stdoutBytes: number; stderrBytes: number;
}
interface Accepted { operationId: string; joined: boolean }
interface Ended { request: number; operationId: string; result?: Result; error?: Fault }
interface Chunk { request: number; stream: StreamName; offset: number; base64: string }
interface Gap { request: number; stream: StreamName; from: number; to: number }
interface Options { domain: string; op?: string; stdin: boolean; command: string[] }

const STATUS_OF_REFUSAL: Record<string, number> = { operation_id_conflict: 76, resource_conflict: 75, join_abandoned: 130 };

/** What a person is told, and the exit status that goes with it. */
class Failure extends Error {
  constructor(text: string, readonly status = 70) { super(text); }
}

/** The error object of an answer, or of an end without a result, in words. */
function refused(fault: Fault): Failure {
  const kind = fault.data?.kind ?? "protocol";
  const causes = (fault.data?.causes ?? []).map((cause) => `\n  because ${cause}`);
  const hint = fault.data?.hint ? `\n  hint: ${fault.data.hint}` : "";
  return new Failure(`${kind}: ${fault.message}${causes.join("")}${hint}`, STATUS_OF_REFUSAL[kind] ?? 70);
}

/** Connects to the domain's socket if it is our own: what we send has our variables in it. */
async function connect(domain: string): Promise<net.Socket> {
  try {
    const folder = fs.openSync(domain, fs.constants.O_RDONLY | fs.constants.O_DIRECTORY);
    // By the descriptor: the domain's own path may be longer than an address can be (108 bytes).
    const path = `/proc/self/fd/${folder}/kernel.sock`;
    const [about, there, us] = [fs.fstatSync(folder), fs.lstatSync(path), process.geteuid?.()];
    // Node cannot ask who listens (SO_PEERCRED), but where only we may write, only we can.
    if (about.uid !== us || (about.mode & 0o022) !== 0) throw new Failure(`${domain} is not ours alone`, 73);
    if (there.uid !== us || !there.isSocket()) throw new Failure(`${domain}/kernel.sock is no socket of ours`, 73);
    const socket = net.connect(path);
    await once(socket, "connect");
    fs.closeSync(folder);
    return socket;
  } catch (error) {
    if (!["ENOENT", "ECONNREFUSED"].includes((error as NodeJS.ErrnoException).code ?? "")) throw error;
    throw new Failure(`no arbiter serves ${domain}\n  hint: start one by \`xioflow --domain ${domain} arbiter\`; ` +
      `any \`xioflow --domain ${domain} run\` starts one, too`, 73);
  }
}

/** One connection: numbered requests out, answers and notices in. */
class Arbiter {
  private lastId = 0;
  private rest = Buffer.alloc(0);
  private readonly waiting = new Map<number, { resolve: (result: any) => void; reject: (error: Error) => void }>();
  /** Called for every notice. */
  notice: (method: string, params: any) => void = () => {};
  /** Called when nothing more can come. */
  lost: (error: Error) => void = () => {};

  constructor(private readonly socket: net.Socket) {
    socket.on("data", (data) => this.take(data));
    socket.on("error", () => {}); // "close" follows, and is all that matters.
    socket.on("close", () => this.fail(new Failure("the arbiter went away")));
  }

  /** Sends a request: its number, and the promise of its answer. */
  send<T>(method: string, params: object): { id: number; answer: Promise<T> } {
    const id = ++this.lastId;
    const answer = new Promise<T>((resolve, reject) => this.waiting.set(id, { resolve, reject }));
    this.socket.write(JSON.stringify({ jsonrpc: "2.0", id, method, params }) + "\n");
    return { id, answer };
  }

  end(): void { this.socket.end(); }

  private take(data: Buffer): void {
    this.rest = Buffer.concat([this.rest, data]);
    for (let end; (end = this.rest.indexOf(10)) >= 0; this.rest = this.rest.subarray(end + 1)) {
      const message = JSON.parse(this.rest.toString("utf8", 0, end));
      if (message.method !== undefined) this.notice(message.method, message.params);
      else if (typeof message.id !== "number") this.fail(refused(message.error)); // Of a line without a readable id.
      else {
        const asked = this.waiting.get(message.id);
        this.waiting.delete(message.id);
        if (message.error) asked?.reject(refused(message.error));
        else asked?.resolve(message.result);
      }
    }
  }

  private fail(error: Error): void {
    for (const { reject } of this.waiting.values()) reject(error);
    this.waiting.clear();
    this.lost(error);
  }
}

/** One stream of an operation: what was passed on, and the way to what was not sent to us. */
class Stream {
  /** Whether anybody still reads what we write. */
  wanted = true;
  private passed = 0;
  private wantedTo = 0;
  private fetching: Promise<void> | null = null;

  constructor(readonly name: StreamName, readonly to: NodeJS.WriteStream,
    private readonly arbiter: Arbiter, private readonly accepted: Promise<Accepted>) {}

  /** Passes bytes on, if they are the next ones. A pipe blocks here; the arbiter leaves out what we are too slow for. */
  take(offset: number, bytes: Buffer): boolean {
    if (offset > this.passed) return false;
    const fresh = bytes.subarray(this.passed - offset);
    if (this.wanted && fresh.length > 0) this.to.write(fresh);
    this.passed += fresh.length;
    return true;
  }

  /** Passes on what is stored before this offset and was not sent. */
  reach(to: number): Promise<void> {
    this.wantedTo = Math.max(this.wantedTo, to);
    this.fetching ??= this.fetch().finally(() => { this.fetching = null; });
    return this.fetching;
  }

  /** Passes on everything that is left of a stream that has ended. */
  async finish(length: number): Promise<void> {
    await this.fetching;
    await this.reach(length);
    if (this.wanted && this.passed < length) say(`${this.name} is not stored from byte ${this.passed} on`);
  }

  private async fetch(): Promise<void> {
    const { operationId } = await this.accepted;
    while (this.passed < this.wantedTo && this.wanted) {
      const from = this.passed;
      const part = await this.arbiter.send<{ base64: string }>("artifacts.read", { operationId, stream: this.name, from }).answer;
      if (part.base64 !== "") this.take(from, Buffer.from(part.base64, "base64"));
      else return; // There is no more now. At the end it will be asked again.
    }
  }
}

/** Submits the command, passes its output on, and returns its end and the signals that cancelled it. */
async function execute(arbiter: Arbiter, options: Options): Promise<[Ended, NodeJS.Signals[]]> {
  const [program, ...args] = options.command;
  const cancelledBy = cancelOnSignals(arbiter, () => request);
  const { id: request, answer } = arbiter.send<Accepted>("op.execProcess", {
    operationId: options.op,
    command: { program, args, inheritEnv: true },
    // Without a caller it would have no variables, and the arbiter's umask.
    caller: { folder: process.cwd(), variables: Object.entries(process.env), umask: process.umask() },
    stdin: options.stdin ? { from: "bytes", base64: fs.readFileSync(0).toString("base64") } : { from: "null" },
    output: "chunks", // Node cannot send descriptors.
  });
  const streams = [new Stream("stdout", process.stdout, arbiter, answer), new Stream("stderr", process.stderr, arbiter, answer)];
  const ended = new Promise<Ended>((resolve, reject) => {
    arbiter.lost = reject;
    arbiter.notice = (method, params: Chunk & Gap & Ended) => {
      const stream = streams.find((one) => one.name === params.stream);
      if (params.request !== request) return;
      if (method === "op.result") resolve(params);
      if (method === "op.gap") stream?.reach(params.to).catch(reject);
      if (method !== "op.chunk") return;
      const bytes = Buffer.from(params.base64, "base64");
      // What comes too early is fetched together with what was left out before it.
      if (!stream?.take(params.offset, bytes)) stream?.reach(params.offset + bytes.length).catch(reject);
    };
  });
  ended.catch(() => {}); // If the request is refused, that is what counts.
  for (const stream of streams) {
    stream.to.on("error", () => {
      stream.wanted = false;
      // So that the command sees what it would have seen without us: SIGPIPE.
      arbiter.send("op.closeStream", { request, stream: stream.name }).answer.catch(() => {});
    });
  }
  // Whoever joins is sent what comes from then on. What came before is stored.
  if ((await answer).joined) for (const stream of streams) stream.reach(1).catch(() => {}); // Or is not on record yet.
  const end = await ended;
  // What did not come live; of an operation that was over before we asked, that is all.
  await streams[0].finish(end.result?.stdoutBytes ?? 0);
  await streams[1].finish(end.result?.stderrBytes ?? 0);
  return [end, cancelledBy];
}

/** The first Ctrl-C asks the command to end, the second kills it. The result says what came of it. */
function cancelOnSignals(arbiter: Arbiter, request: () => number): NodeJS.Signals[] {
  const came: NodeJS.Signals[] = [];
  const cancel = (signal: NodeJS.Signals) => {
    const asked = signal === "SIGINT" ? "interrupt" : "terminate";
    arbiter.send("op.stop", { request: request(), manner: came.length > 0 ? "kill" : asked }).answer.catch(() => {});
    came.push(signal);
  };
  process.on("SIGINT", cancel).on("SIGTERM", cancel);
  return came;
}

/** As `xioflow run` has it: the command's own where it has one, 128 and the number of a signal. */
function exitStatus(result: Result, cancelledBy: NodeJS.Signals[]): number {
  const bySignal = (name: string) => 128 + (os.constants.signals[name as NodeJS.Signals] ?? 0);
  if (result.status === "indeterminate") return 79;
  if (result.status === "cancelled") return bySignal(cancelledBy[0] ?? "SIGINT");
  return result.exitCode ?? (result.signal === null ? 79 : bySignal(result.signal));
}

function parse(): Options {
  const named = { domain: { type: "string" }, op: { type: "string" }, stdin: { type: "boolean" } } as const;
  const { values: { domain, op, stdin = false }, positionals: command } = parseArgs({ options: named, allowPositionals: true });
  if (command.length === 0) throw new Failure("usage: client.js [--domain DIR] [--op ID] [--stdin] -- CMD [ARG...]", 64);
  return { domain: domain ?? (process.env.XIOFLOW_DOMAIN || ".xioflow"), op, stdin, command };
}

function say(text: string): void { process.stderr.write(`client: ${text}\n`); }

async function main(): Promise<number> {
  const options = parse();
  const arbiter = new Arbiter(await connect(options.domain));
  try {
    // The release is for people: what has to be the same is the protocol.
    await arbiter.send("kernel.hello", { protocol: 1, release: "0.1.0", client: "examples/typescript" }).answer;
    const [{ operationId, result, error }, cancelledBy] = await execute(arbiter, options);
    if (!result) throw refused(error as Fault);
    if (result.spawnFailure) say(result.spawnFailure.message);
    say(`${operationId}: status ${result.status}, exitCode ${result.exitCode}, treeSettlement ${result.treeSettlement}`);
    return exitStatus(result, cancelledBy);
  } finally {
    arbiter.end();
  }
}

main().catch((error) => {
  say(error.message);
  return error instanceof Failure ? error.status : 70;
}).then((status) => { process.exitCode = status; });
