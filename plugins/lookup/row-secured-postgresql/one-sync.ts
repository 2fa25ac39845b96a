/**
 * Point reads in one round trip under a tenant.
 *
 * PostgreSQL takes everything up to a Sync message as one implicit transaction. So Bind/Execute of
 * `set_config('app.tenant_id', $1, true)` and Bind/Execute of the read, under one Sync, make a transaction of their
 * own: the setting ends with it whatever happens, an error in the first part skips the second, and no state is left
 * for the next read on the connection. The driver's pipelining sends further batches without waiting.
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

type Settle = (error: unknown, rows?: TextRow[]) => void

/** `pg.Query` as it is at run time: the driver calls these methods, the published types do not name them. */
interface DriverQuery {
  new (config: { text: string }, values: undefined, callback: Settle): { text: string }
}

const DriverQuery = (pg as unknown as { Query: DriverQuery }).Query

const SET_TENANT = 'set_tenant'
const SET_TENANT_SQL = `select set_config('app.tenant_id', $1, true)`

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

class OneSyncQuery extends DriverQuery {
  readonly #tenant: string
  readonly #statement: string
  readonly #values: readonly (string | null)[]
  readonly #settle: Settle
  readonly #rows: TextRow[] = []
  #completed = 0

  constructor(tenant: string, statement: string, values: readonly (string | null)[], settle: Settle) {
    super({ text: statement }, undefined, settle)
    this.#tenant = tenant
    this.#statement = statement
    this.#values = values
    this.#settle = settle
  }

  submit(wire: Wire): null {
    wire.stream.cork()
    wire.bind({ portal: '', statement: SET_TENANT, values: [this.#tenant] })
    wire.execute({ portal: '' })
    wire.bind({ portal: '', statement: this.#statement, values: this.#values })
    wire.execute({ portal: '' })
    wire.sync()
    wire.stream.uncork()
    return null
  }

  handleDataRow(message: { fields: TextRow }): void {
    if (this.#completed === 1) this.#rows.push(message.fields)
  }

  handleCommandComplete(): void {
    this.#completed += 1
  }

  handleReadyForQuery(): void {
    if (this.#completed === 2) this.#settle(null, this.#rows)
    else this.#settle(new Error('the server ended the batch early'))
  }
}

/** Statements that a connection keeps prepared; each holds a plan in the server's memory. */
const MAX_STATEMENTS = 300

/** One pipelined connection. */
export class Lane {
  readonly #client: pg.Client
  readonly #prepared = new Map<string, Promise<void>>()
  #inFlight = 0
  #lost = false
  #counter = 0
  readonly #names = new Map<string, string>()

  private constructor(client: pg.Client) {
    this.#client = client
  }

  static async connect(config: pg.ClientConfig, onLost: (lane: Lane) => void): Promise<Lane> {
    const client = new pg.Client({ ...config, pipeline: true } as pg.ClientConfig)
    const lane = new Lane(client)
    const lose = () => {
      lane.#lost = true
      onLost(lane)
    }
    // Both events may come for one loss; without a listener the first would end the process.
    client.on('error', lose)
    client.on('end', lose)
    await client.connect()
    await lane.#submit((settle) => new StatementQuery({ name: SET_TENANT, text: SET_TENANT_SQL }, null, settle))
    return lane
  }

  get lost(): boolean {
    return this.#lost
  }

  get inFlight(): number {
    return this.#inFlight
  }

  /** Runs the read under the tenant; rows as the server wrote them. Throws the driver's errors. */
  async read(tenant: string, text: string, values: readonly (string | null)[]): Promise<readonly TextRow[]> {
    const name = this.#prepare(text)
    const prepared = this.#prepared.get(text)
    this.#inFlight += 1
    try {
      return await this.#submit((settle) => new OneSyncQuery(tenant, name, values, settle))
    } catch (error) {
      await this.#explain(text, prepared, error)
      throw error
    } finally {
      this.#inFlight -= 1
    }
  }

  async close(): Promise<void> {
    await this.#client.end()
  }

  destroy(): void {
    wireOf(this.#client).stream.destroy()
  }

  #submit(make: (settle: Settle) => { text: string }): Promise<TextRow[]> {
    return new Promise((resolve, reject) => {
      const query = make((error, rows) => {
        if (error) reject(error)
        else resolve(rows ?? [])
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
    const preparing = this.#submit((settle) => new StatementQuery({ name, text }, this.#evict(), settle)).then(() => {})
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

  /** A statement that could not be prepared fails its reads as unknown: the reason is what preparing it said. */
  async #explain(text: string, prepared: Promise<void> | undefined, error: unknown): Promise<void> {
    await prepared
    const code = (error as { code?: unknown }).code
    // The server no longer has it, or a table has changed under it: the next read prepares it anew.
    if (code === '26000' || code === '0A000') {
      const name = this.#names.get(text)
      if (name !== undefined) this.#forget(text, name)
    }
  }
}
