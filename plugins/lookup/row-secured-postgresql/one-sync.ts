/**
 * Point reads in one round trip under a tenant.
 *
 * PostgreSQL takes everything up to a Sync message as one implicit transaction. So Bind/Execute of
 * `set_config('app.tenant_id', $1, true)` and Bind/Execute of the reads, under one Sync, make a transaction of their
 * own: the setting ends with it whatever happens, an error in the first part skips the others, and no state is left
 * for the next read on the connection. The driver's pipelining sends further batches without waiting. The sessions'
 * transactions are repeatable reads, so the statements of a batch see one state.
 */
import pg from 'pg'

export type TextRow = readonly (string | null)[]

/** What the driver hands to a query, as far as it is used here: the protocol's messages, one method each. */
interface Wire {
  readonly stream: { cork(): void; uncork(): void; destroy(error?: Error): void }
  parse(message: { name: string; text: string; types: readonly number[] }): void
  bind(message: { portal: string; statement: string; values: readonly (string | null)[] }): void
  execute(message: { portal: string }): void
  close(message: { type: 'S'; name: string }): void
  sync(): void
}

export function wireOf(client: pg.Client): Wire {
  return (client as unknown as { connection: Wire }).connection
}

type Settle = (error: unknown) => void

/** `pg.Query` as it is at run time: the driver calls these methods, the published types do not name them. */
interface DriverQuery {
  new (config: { text: string }, values: undefined, callback: Settle): { text: string }
}

const DriverQuery = (pg as unknown as { Query: DriverQuery }).Query

/**
 * How the server plans the batch's statements. `generic`: once, for any tenant; each run then locks every partition
 * of the parent. `custom`: each time, for the partition in question alone.
 */
export type Planning = 'generic' | 'custom'

export interface Statement {
  readonly text: string
  readonly values: readonly (string | null)[]
}

const SET_TENANT = 'set_tenant'
const SET_TENANT_SQL = `select set_config('app.tenant_id', $1, true), set_config('plan_cache_mode', $2, true)`

/** Prepares and forgets statements in a batch of its own, so that its failure is told apart from a read's. */
class StatementQuery extends DriverQuery {
  readonly #prepare: { readonly name: string; readonly text: string }
  readonly #forget: string | null

  constructor(prepare: { name: string; text: string }, forget: string | null, settle: Settle) {
    super({ text: prepare.text }, undefined, settle)
    this.#prepare = prepare
    this.#forget = forget
  }

  submit(wire: Wire): null {
    wire.stream.cork()
    if (this.#forget !== null) wire.close({ type: 'S', name: this.#forget })
    wire.parse({ ...this.#prepare, types: [] })
    wire.sync()
    wire.stream.uncork()
    return null
  }
}

interface Bound {
  readonly statement: string
  readonly values: readonly (string | null)[]
}

class OneSyncQuery extends DriverQuery {
  readonly #batch: readonly Bound[]
  readonly #settle: (error: unknown, results?: TextRow[][]) => void
  readonly #results: TextRow[][] = []
  #rows: TextRow[] = []

  constructor(batch: readonly Bound[], settle: (error: unknown, results?: TextRow[][]) => void) {
    super({ text: SET_TENANT }, undefined, settle as Settle)
    this.#batch = batch
    this.#settle = settle
  }

  submit(wire: Wire): null {
    // Reads that start in one turn of the event loop leave in one write.
    wire.stream.cork()
    process.nextTick(() => wire.stream.uncork())
    for (const { statement, values } of this.#batch) {
      wire.bind({ portal: '', statement, values })
      wire.execute({ portal: '' })
    }
    wire.sync()
    return null
  }

  handleDataRow(message: { fields: TextRow }): void {
    this.#rows.push(message.fields)
  }

  handleCommandComplete(): void {
    this.#results.push(this.#rows)
    this.#rows = []
  }

  handleReadyForQuery(): void {
    if (this.#results.length === this.#batch.length) this.#settle(null, this.#results.slice(1))
    else this.#settle(new Error('the server ended the batch early'))
  }
}

/** Statements that a connection keeps prepared; each holds a plan in the server's memory. */
const MAX_STATEMENTS = 300

/** Several times what the server may take for a read. */
const SILENCE_MS = 5000
/** How often a connection is looked after. */
const WATCH_MS = 1000

/** One pipelined connection. */
export class Lane {
  readonly #client: pg.Client
  readonly #prepared = new Map<string, Promise<void>>()
  #inFlight = 0
  #lost = false
  #counter = 0
  readonly #names = new Map<string, string>()
  /** When the server was last heard, or asked after a pause. */
  #heardAtMs = 0

  private constructor(client: pg.Client) {
    this.#client = client
  }

  /** With reads under way and no word for `silenceMs`, the connection is taken for lost. */
  static async connect(config: pg.ClientConfig, onLost: (lane: Lane) => void, silenceMs = SILENCE_MS): Promise<Lane> {
    const client = new pg.Client({ ...config, pipeline: true } as pg.ClientConfig)
    const lane = new Lane(client)
    const watch = setInterval(() => {
      if (lane.#inFlight > 0 && performance.now() - lane.#heardAtMs > silenceMs) lane.destroy()
    }, WATCH_MS).unref()
    const lose = () => {
      clearInterval(watch)
      lane.#lost = true
      onLost(lane)
    }
    // Both events may come for one loss; without a listener the first would end the process.
    client.on('error', lose)
    client.on('end', lose)
    await client.connect()
    await lane.#submit<unknown>(
      (settle) => new StatementQuery({ name: SET_TENANT, text: SET_TENANT_SQL }, null, settle),
    )
    return lane
  }

  get lost(): boolean {
    return this.#lost
  }

  get inFlight(): number {
    return this.#inFlight
  }

  /** Runs the statements under the tenant; the rows of each, as the server wrote them. Throws the driver's errors. */
  async read(
    tenant: string,
    planning: Planning,
    statements: readonly Statement[],
  ): Promise<readonly (readonly TextRow[])[]> {
    const batch: Bound[] = [{ statement: SET_TENANT, values: [tenant, `force_${planning}_plan`] }]
    for (const { text, values } of statements) batch.push({ statement: this.#prepare(text), values })
    // Looked up now: one that fails is forgotten before its reads hear of it.
    const prepared = statements.map(({ text }) => this.#prepared.get(text))
    if (this.#inFlight === 0) this.#heardAtMs = performance.now()
    this.#inFlight += 1
    try {
      return await this.#submit<TextRow[][]>((settle) => new OneSyncQuery(batch, settle))
    } catch (error) {
      // A statement that could not be prepared fails its reads as unknown: the reason is what preparing it said.
      await Promise.all(prepared)
      for (const { text } of statements) this.#reconsider(text, error)
      throw error
    } finally {
      this.#inFlight -= 1
      this.#heardAtMs = performance.now()
    }
  }

  async close(): Promise<void> {
    await this.#client.end()
  }

  destroy(): void {
    wireOf(this.#client).stream.destroy()
  }

  #submit<T>(make: (settle: (error: unknown, result?: T) => void) => { text: string }): Promise<T> {
    return new Promise((resolve, reject) => {
      const query = make((error, result) => {
        if (error) reject(error)
        else resolve(result as T)
      })
      ;(this.#client as unknown as { query(query: unknown): void }).query(query)
    })
  }

  /** The statement's name; sent ahead of the read where it is new, without waiting for it. */
  #prepare(text: string): string {
    const known = this.#names.get(text)
    if (known !== undefined) {
      this.#touch(text, known)
      return known
    }
    const name = `read_${this.#counter}`
    this.#counter += 1
    const forget = this.#evict()
    const preparing = this.#submit<void>((settle) => new StatementQuery({ name, text }, forget, settle))
    // Its failure is told by the read that follows it.
    preparing.catch(() => this.#forget(text, name))
    this.#names.set(text, name)
    this.#prepared.set(text, preparing)
    return name
  }

  #touch(text: string, name: string): void {
    this.#names.delete(text)
    this.#names.set(text, name)
  }

  #evict(): string | null {
    if (this.#names.size < MAX_STATEMENTS) return null
    const eldest = this.#names.entries().next().value
    if (!eldest) return null
    this.#forget(...eldest)
    return eldest[1]
  }

  #forget(text: string, name: string): void {
    if (this.#names.get(text) !== name) return
    this.#names.delete(text)
    this.#prepared.delete(text)
  }

  /** Where the server no longer has a statement, or its table has changed, the next read prepares it anew. */
  #reconsider(text: string, error: unknown): void {
    const code = (error as { code?: unknown }).code
    if (code !== '26000' && code !== '0A000') return
    const name = this.#names.get(text)
    if (name !== undefined) this.#forget(text, name)
  }
}
