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
  /** How many partitions a plan for any tenant has in it; absent: none. */
  readonly partitions?: number
}

const SET_TENANT = 'set_tenant'
const SET_TENANT_SQL = `select set_config('app.tenant_id', $1, true), set_config('plan_cache_mode', $2, true)`

/** Prepares and forgets statements in a batch of its own, so that its failure is told apart from a read's. */
class StatementQuery extends DriverQuery {
  readonly #prepare: { readonly name: string; readonly text: string }
  readonly #forget: readonly string[]

  constructor(prepare: { name: string; text: string }, forget: readonly string[], settle: Settle) {
    super({ text: prepare.text }, undefined, settle)
    this.#prepare = prepare
    this.#forget = forget
  }

  submit(wire: Wire): null {
    wire.stream.cork()
    for (const name of this.#forget) wire.close({ type: 'S', name })
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
/** In the plans of all of them: the server takes 10 to 20 KB for each. */
const MAX_PARTITIONS = 2_000

interface Prepared {
  readonly name: string
  readonly partitions: number
  readonly done: Promise<void>
}

/** Several times what the server may take for a read. */
const SILENCE_MS = 5000
/** How often a connection is looked after. */
const WATCH_MS = 1000

/** One pipelined connection. */
export class Lane {
  readonly #client: pg.Client
  /** By their text, the one that was used last at the end. */
  readonly #prepared = new Map<string, Prepared>()
  #partitions = 0
  #inFlight = 0
  #lost = false
  #counter = 0
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
    await lane.#submit<unknown>((settle) => new StatementQuery({ name: SET_TENANT, text: SET_TENANT_SQL }, [], settle))
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
    // Looked up now: one that fails is forgotten before its reads hear of it.
    const prepared: Prepared[] = []
    for (const { text, values, partitions = 0 } of statements) {
      const one = this.#prepare(text, planning === 'generic' ? partitions : 0)
      prepared.push(one)
      batch.push({ statement: one.name, values })
    }
    if (this.#inFlight === 0) this.#heardAtMs = performance.now()
    this.#inFlight += 1
    try {
      return await this.#submit<TextRow[][]>((settle) => new OneSyncQuery(batch, settle))
    } catch (error) {
      // A statement that could not be prepared fails its reads as unknown: the reason is what preparing it said.
      await Promise.all(prepared.map(({ done }) => done))
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

  /** Sent ahead of the read where the statement is new, without waiting for it. */
  #prepare(text: string, partitions: number): Prepared {
    const known = this.#prepared.get(text)
    if (known !== undefined && known.partitions >= partitions) {
      this.#prepared.delete(text)
      this.#prepared.set(text, known)
      return known
    }
    // A plan for all of these takes the place of one for fewer.
    const forget = known === undefined ? [] : [known.name]
    if (known !== undefined) this.#forget(text, known.name)
    forget.push(...this.#evict(partitions))
    const name = `read_${this.#counter}`
    this.#counter += 1
    const done = this.#submit<void>((settle) => new StatementQuery({ name, text }, forget, settle))
    // Its failure is told by the read that follows it.
    done.catch(() => this.#forget(text, name))
    const prepared = { name, partitions, done }
    this.#prepared.set(text, prepared)
    this.#partitions += partitions
    return prepared
  }

  /** Names of statements that make room for another one, the one first that nobody has used for longest. */
  #evict(partitions: number): readonly string[] {
    const forgotten: string[] = []
    for (const [text, { name }] of this.#prepared) {
      if (this.#prepared.size < MAX_STATEMENTS && this.#partitions + partitions <= MAX_PARTITIONS) break
      this.#forget(text, name)
      forgotten.push(name)
    }
    return forgotten
  }

  #forget(text: string, name: string): void {
    const known = this.#prepared.get(text)
    if (known?.name !== name) return
    this.#prepared.delete(text)
    this.#partitions -= known.partitions
  }

  /** Where the server no longer has a statement, or its table has changed, the next read prepares it anew. */
  #reconsider(text: string, error: unknown): void {
    const code = (error as { code?: unknown }).code
    if (code !== '26000' && code !== '0A000') return
    const known = this.#prepared.get(text)
    if (known !== undefined) this.#forget(text, known.name)
  }
}
