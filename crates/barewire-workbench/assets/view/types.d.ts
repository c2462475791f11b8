// The shapes of what the program sends, for the type checker. This file is not part of the page.

/** How far a source has been read, in bytes. */
export interface Progress {
  read: number;
  total: number | null;
}

export interface Software {
  name: string;
  version: string | null;
}

export interface Conversation {
  name: string;
  client: Software | null;
  server: Software | null;
  era: "legacy" | "modern" | null;
  revision: string | null;
  http: boolean;
  frames: number;
  failures: number;
  findings: number;
  state: "running" | "ended";
  end: string | null;
  first: number | null;
  last: number | null;
}

export interface Source {
  id: string | number;
  kind: "file" | "tap" | "driven";
  name: string;
  state: "reading" | "complete" | "live" | "ended" | "lost" | "failed";
  note: string | null;
  progress: Progress | null;
  frames: number;
  operations: number;
  findings: number;
  failures: number;
  bytes: number;
  started: string | null;
  first: number | null;
  last: number | null;
  timed: boolean;
  /** Whether a secret was replaced. */
  redacted: boolean;
  /** Whether secrets are as they were sent. */
  unredacted: boolean;
  drivable: boolean;
  conversations: Conversation[];
  calls?: number;
  questions?: number;
}

export interface Sources {
  redacted: boolean;
  sources: Source[];
}

export interface Row {
  frame: number | null;
  key: string;
  event: string | null;
  time: number | null;
  dir: ">" | "<" | "!" | null;
  kind: string;
  id: string | number | null;
  method: string | null;
  name: string | null;
  size: number | null;
  latency: number | null;
  outcome: string | null;
  note: string | null;
  op: number | null;
  round: number | null;
  role: string | null;
  channel: string | null;
  conversation: string | null;
  children: number;
  depth: number;
  bad: boolean;
  findings: string[];
  redacted: boolean;
  preview: string;
}

/** A row that can be opened: the number of a frame, or the key of an event (`e12`). */
export type RowPlace = number | string;

export interface Rows {
  total: number;
  final: boolean;
  scanned: number;
  from: number;
  rows: Row[];
}

/** What selects rows. */
export interface RowQuery {
  filter: string;
  conversation: string;
  fold: boolean;
  expand: string;
}

export interface Node {
  key: string | null;
  index: number | null;
  kind: "object" | "array" | "string" | "number" | "boolean" | "null";
  at: number;
  length: number;
  count: number | null;
  preview: string;
  meaning: string | null;
  schema: string | null;
  /** What a finding says about the member. */
  mark: string | null;
}

export interface Nodes {
  nodes: Node[];
  total: number;
}

export interface FrameText {
  text: string;
  from: number;
  to: number;
  length: number;
  lossy: boolean;
}

export interface Place {
  frame: number | null;
  byte: number | null;
  side: string | null;
  detail: string;
  conversation: string | null;
  time: number | null;
  evidence: string[];
}

export interface Finding {
  check: string;
  title: string;
  severity: string;
  level: string | null;
  origin: string | null;
  count: number;
  fix: string | null;
  rule: string | null;
  places: Place[];
}

export interface Findings {
  total: number;
  kept: number;
  groups: Finding[];
}

export interface OperationFrame {
  frame: number;
  role: string | null;
  time: number | null;
  latency: number | null;
}

export interface OperationRef {
  number?: number;
  op?: number;
  frame: number | null;
  method?: string | null;
  name?: string | null;
  title?: string | null;
}

export interface Operation {
  number: number;
  method: string | null;
  name: string | null;
  title: string | null;
  asker: string | null;
  conversation: string | null;
  latency: number | null;
  state: string;
  frames: OperationFrame[];
  parent: OperationRef | number | null;
  children: (OperationRef | number)[];
}

export interface HttpHeads {
  request: { method: string; target: string; headers: [string, string][] } | null;
  response: { status: number; reason: string; headers: [string, string][] } | null;
}

export interface InvalidFrame {
  rule: string;
  detail: string;
  at: number;
  excerpt: string;
  caret: number;
}

export interface Frame {
  row: Row;
  length: number;
  text: string;
  text_complete: boolean;
  lossy: boolean;
  invalid: InvalidFrame | null;
  tree: Node[];
  explanation: string | null;
  http: HttpHeads | null;
  /** Members that do not match the schema of their tool. */
  schema: { at: number; path: string; message: string }[];
  /** Members that other findings are about. */
  marks: { at: number; path: string; message: string }[];
  findings: Finding[];
  operation: Operation | null;
  elements: Row[];
  prev: number | null;
  next: number | null;
  copy: { json: string | null; call: string | null; curl: string | null };
}

export interface Bar {
  op: number;
  frame: number;
  title: string | null;
  method: string;
  name: string | null;
  start: number;
  end: number | null;
  lane: number;
  depth: number;
  parent: number | null;
  outcome: string | null;
  rounds: { start: number; end: number | null }[];
  conversation: string | null;
  slow: boolean;
  failed: boolean;
  listening: boolean;
}

export interface Bucket {
  from: number;
  to: number;
  count: number;
  errors: number;
  max: number;
}

export interface Timeline {
  from: number;
  to: number;
  lanes: number;
  bars: Bar[];
  buckets: Bucket[] | null;
}

export interface MethodStats {
  method: string;
  count: number;
  errors: number;
  open: number;
  p50: number | null;
  p90: number | null;
  p99: number | null;
  max: number | null;
  total: number;
  histogram: [number, number, number][];
}

export interface Stats {
  methods: MethodStats[];
  over_time: {
    step: number;
    from: number;
    calls: number[];
    errors: number[];
    to_server: number[];
    to_client: number[];
  } | null;
}

export interface Difference {
  path: string;
  a: string | null;
  b: string | null;
}

export interface ComparedSide {
  frame: number | null;
  latency: number | null;
  outcome: string | null;
}

export interface ComparedOperation {
  title: string;
  a: ComparedSide | null;
  b: ComparedSide | null;
  state: "same" | "different" | "only-a" | "only-b";
  differences: Difference[];
}

export interface Comparison {
  operations: ComparedOperation[];
  summary: Record<string, unknown>;
}

/** A JSON Schema, or any other JSON object of a peer. */
export type Json = any;

export interface Catalog {
  server: Json;
  capabilities: Json;
  tools: Json[];
  resources: Json[];
  templates: Json[];
  prompts: Json[];
  errors: string[];
}

export interface CallState {
  state: "running" | "done" | "cancelled" | "failed";
  frames: { request: number | null; response: number | null };
  progress: { done: number | null; total: number | null; message: string | null } | null;
  result: string | null;
  error: { code: number; message: string; data?: Json } | null;
  elapsed: number;
}

export interface Question {
  id: string | number;
  method: string;
  params: Json;
  frame: number | null;
}

export interface ReplayState {
  state: string;
  notes: string[];
  differences: { frame: number; path: string; expected: string | null; received: string | null }[];
  summary: Json;
}

/** What the page asks: of the program (api.js), or of the data in an exported file (api-file.js). */
export interface Api {
  /** Whether the program answers, and not a file. */
  readonly live: boolean;
  /** What is to be known about the data, such as frames that are left out. */
  readonly notes: string[];
  enter(token: string): Promise<void>;
  /** Calls `changed` with the sources at once and whenever they change, and `connected` when the program is lost or regained. */
  follow(changed: (sources: Sources) => void, connected: (state: Connection) => void): void;
  rows(source: string, query: RowQuery, from: number, count: number, signal?: AbortSignal): Promise<Rows>;
  /** The place of a row in the list; `op` is the operation to unfold if the row is folded away. */
  find(source: string, query: RowQuery, place: RowPlace, signal?: AbortSignal): Promise<{ index: number | null; op: number | null }>;
  near(source: string, query: RowQuery, time: number): Promise<number | null>;
  frame(source: string, place: RowPlace, signal?: AbortSignal): Promise<Frame>;
  tree(source: string, frame: number, at: number, from: number, count: number): Promise<Nodes>;
  text(source: string, place: RowPlace, from: number, count: number): Promise<FrameText>;
  timeline(
    source: string,
    range: { from: number | null; to: number | null; conversation: string; filter: string; width: number },
    signal?: AbortSignal,
  ): Promise<Timeline>;
  /** Of what a query selects. */
  stats(source: string, query: RowQuery): Promise<Stats>;
  findings(source: string, query: RowQuery): Promise<Findings>;
  explain(word: string): Promise<string | null>;
  /** The address of a download, or null if there is none. */
  exportAddress(source: string, format: string, query: RowQuery): string | null;
  compare(a: string, b: string): Promise<Comparison>;
  catalog(source: string, refresh: boolean): Promise<Catalog>;
  call(source: string, method: string, params: string): Promise<string>;
  callState(source: string, call: string): Promise<CallState>;
  cancel(source: string, call: string): Promise<void>;
  questions(source: string): Promise<Question[]>;
  answer(source: string, question: string, answer: Json): Promise<void>;
  complete(source: string, what: Json): Promise<string[]>;
  send(source: string, text: string): Promise<void>;
  replay(source: string, recorded: string): Promise<string>;
  replayState(source: string, run: string): Promise<ReplayState>;
}

/** A row of an exported file, with what filters and folding must know about it. */
export interface FileRow extends Row {
  match: {
    stream?: string;
    failed?: boolean;
    op?: number;
    /** The place of the row that this one is folded below. */
    above?: number;
    /** Whether the text is not in the file. */
    lost?: boolean;
    /** The whole text of an event. */
    text?: string;
    method?: string;
    tool?: string;
    ids?: string[];
    /** Whether it is a request without a response. */
    open?: boolean;
    /** The place of an element in the text of its batch, and its length. */
    part?: [number, number];
  };
}

export interface FileFrame extends Frame {
  /** Whether the JSON to copy is the text. */
  copied?: boolean;
  /** The number of bytes that are in the file, if not all are. */
  kept?: number;
  /** The bytes in Base64, if they are not UTF-8. */
  bytes?: string;
}

export interface FileOperation {
  op: number;
  method: string;
  conversation: string | null;
  state: "done" | "failed" | "open";
  start: number | null;
  latency: number | null;
}

/** The data in an exported file. */
export interface Exported {
  format: number;
  program: string;
  sources: Sources;
  source: string | number;
  filter: string;
  notes: string[];
  rows: FileRow[];
  frames: Record<string, FileFrame>;
  timeline: Timeline;
  operations: FileOperation[];
  findings: Findings;
  words: Record<string, string>;
  meanings: Record<string, string>;
}

export type Connection = "connected" | "lost" | "refused";

/** What the URL says. */
export interface View {
  /** The source. */
  s: string;
  tab: string;
  /** The conversation. */
  c: string;
  /** The filter. */
  q: string;
  /** The frame or the event, or 0. */
  f: RowPlace;
  fold: boolean;
  /** Unfolded operations, separated by commas. */
  x: string;
  /** The range of the timeline: `from~to`. */
  t: string;
  /** The sources that are compared. */
  a: string;
  b: string;
}
