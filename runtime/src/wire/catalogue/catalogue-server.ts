/**
 * The PostgreSQL that answers for the catalogue: there while it is asked, of this runtime alone, reached by a unix socket, and
 * without a row of anybody. One database for each set of tables that somebody may read; those asked longest ago are dropped.
 */
import { randomBytes } from 'node:crypto'
import { join } from 'node:path'
import type { Logger } from '@sluice/sdk'
import pg from 'pg'
import type { DatabaseAddress } from '../../database/address.ts'
import { type EmbeddedServer, startEmbeddedServer } from '../../database/embedded-server.ts'
import { closeOpenFunctions } from '../../database/open-functions.ts'
import type { TenantCall } from '../../flow.ts'
import { FairGate } from '../../http/fair-gate.ts'
import type { Described } from '../../operations/queries/information-schema.ts'
import { WireError } from '../protocol/wire-error.ts'
import type { CatalogueAddress, CatalogueLink } from './catalogue-link.ts'
import { type Begun, RestingServer } from './resting-server.ts'
import { catalogueName, READER, REOPENED_SQL, TEMPLATE_SQL, tablesSql } from './table-sql.ts'

const SETTINGS = {
  max_connections: '40',
  shared_buffers: '16MB',
  work_mem: '4MB',
  temp_file_limit: '64MB',
  statement_timeout: '15s',
  // A process ends its statement when nobody is there any more.
  client_connection_check_interval: '500ms',
  autovacuum: 'off',
  max_worker_processes: '0',
  max_parallel_workers: '0',
}
/** Of one process, of which its program and what all share are 115 MiB: a statement that takes more ends with an error. */
const PROCESS_BYTES = 384 * 1024 * 1024
/** At once; one connection each. The others wait, and tenants take turns. */
const MOST_AT_ONCE = 8
/** Until there is a place and a database. */
const READY_MS = 120_000
const MOST_TABLES = 20_000

export interface CatalogueOptions {
  readonly dataDirectory: string
  /** Databases that are kept. */
  readonly mostSets: number
  /** Until the server, which nobody asks, is ended. */
  readonly idleMs: number
  /** What the caller may read now, as he may read it. */
  tablesOf(call: TenantCall): Promise<readonly Described[]>
  readonly logger: Logger
}

/** What is asked. */
export interface Asked {
  /** False: its answer is the same whatever the caller may read. */
  readonly needsTables: boolean
}

export class CatalogueServer {
  readonly #options: CatalogueOptions
  readonly #resting: RestingServer
  readonly #inUse = new Map<string, number>()
  readonly #places = new FairGate(MOST_AT_ONCE)

  constructor(options: CatalogueOptions) {
    const { dataDirectory, idleMs, logger } = options
    this.#options = options
    this.#resting = new RestingServer({ idleMs, start: (isKept) => start(dataDirectory, isKept), prepare, logger })
  }

  /**
   * Runs the work where the database has what the caller may read now. Rejects with the signal's reason, with 53300 where it
   * had to wait for too long, and with 58000 where there is no server.
   */
  async within<T>(asked: Asked, call: TenantCall, work: (link: CatalogueLink) => Promise<T>): Promise<T> {
    const { tenant } = call
    const late = AbortSignal.timeout(READY_MS)
    const signal = AbortSignal.any([call.signal, late])
    const holds: Promise<void>[] = []
    try {
      await this.#places.enter(tenant, 1, 1, () => signal)
      const isOver = this.#resting.use()
      const leave = () => {
        this.#places.leave(tenant, 1)
        isOver()
      }
      try {
        return await this.#inDatabase(asked, { ...call, signal }, (address) => {
          call.signal.throwIfAborted()
          return work({ ...address, hold: (ended) => holds.push(ended) })
        })
      } finally {
        void Promise.all(holds).then(leave)
      }
    } catch (error) {
      call.signal.throwIfAborted()
      if (late.aborted && error === late.reason) throw tooMany()
      throw error
    }
  }

  async #inDatabase<T>(
    { needsTables }: Asked,
    call: TenantCall,
    work: (address: CatalogueAddress) => Promise<T>,
  ): Promise<T> {
    const tables = needsTables ? await this.#options.tablesOf(call) : []
    if (tables.length > MOST_TABLES) throw new WireError('54000', `there are more than ${MOST_TABLES} tables`)
    const name = catalogueName(call.tenant, tables)
    const begun = await unlessAborted(this.#begun(), call.signal)
    this.#inUse.set(name, (this.#inUse.get(name) ?? 0) + 1)
    try {
      await unlessAborted(
        this.#database(name, begun, () => tablesSql(call.tenant, name, tables)),
        call.signal,
      )
      const { host, port } = begun.server.address
      const { password } = begun
      return await work({ socketPath: join(host, `.s.PGSQL.${port}`), database: name, user: READER, password })
    } finally {
      this.#leave(name)
    }
  }

  close(): Promise<void> {
    return this.#resting.close()
  }

  #leave(name: string): void {
    const users = (this.#inUse.get(name) ?? 1) - 1
    if (users > 0) this.#inUse.set(name, users)
    else this.#inUse.delete(name)
  }

  async #begun(): Promise<Begun> {
    if (this.#resting.isClosed) throw unavailable()
    try {
      return await this.#resting.begun()
    } catch (error) {
      this.#options.logger.error('the PostgreSQL of the catalogue did not start', {
        error: error instanceof Error ? error.message : String(error),
      })
      throw unavailable()
    }
  }

  /** Goes on, and keeps the server, also where nobody waits for it any more. */
  async #database(name: string, begun: Begun, sql: () => readonly string[]): Promise<void> {
    const { databases, server } = begun
    const isOver = this.#resting.use()
    try {
      const known = databases.get(name)
      databases.delete(name)
      const made = known ?? make(server.address, name, sql())
      databases.set(name, made)
      await made.catch((error: unknown) => {
        if (databases.get(name) === made) databases.delete(name)
        this.#options.logger.error('a catalogue could not be made', {
          error: error instanceof Error ? error.message : String(error),
        })
        throw unavailable()
      })
      if (known === undefined) await this.#makeRoom(begun)
    } finally {
      isOver()
    }
  }

  async #makeRoom({ databases, server }: Begun): Promise<void> {
    const tooMany = databases.size - this.#options.mostSets
    const idle = [...databases.keys()].filter((name) => !this.#inUse.has(name)).slice(0, Math.max(0, tooMany))
    for (const name of idle) {
      databases.delete(name)
      await onDatabase(server.address, 'postgres', (client) => {
        return client.query(`drop database if exists ${name} with (force)`)
      })
    }
  }
}

function start(dataDirectory: string, isKept: boolean): Promise<EmbeddedServer> {
  return startEmbeddedServer({
    dataFolder: join(dataDirectory, 'wire-catalogue'),
    settings: SETTINGS,
    durable: false,
    isSocketOnly: true,
    isFresh: !isKept,
    processBytes: PROCESS_BYTES,
  })
}

function tooMany(): WireError {
  return new WireError('53300', 'too many ask for the catalogue at once', { hint: 'Try again.' })
}

/** What others wait for, too, goes on without the one who waits no more. */
async function unlessAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  const { promise, reject } = Promise.withResolvers<never>()
  const abort = (): void => reject(signal.reason)
  // Where nobody waits any more, its failure is told by whoever asks next.
  work.catch(() => undefined)
  if (signal.aborted) abort()
  signal.addEventListener('abort', abort, { once: true })
  try {
    return await Promise.race([work, promise])
  } finally {
    signal.removeEventListener('abort', abort)
  }
}

function unavailable(): WireError {
  return new WireError('58000', 'the catalogue cannot be asked just now', {
    hint: 'Try again; rows of products are read as before.',
  })
}

/** What nobody shall see is taken away before there are copies. Returns the reader's password. */
async function prepare({ address }: EmbeddedServer): Promise<string> {
  const password = randomBytes(24).toString('base64url')
  await onDatabase(address, 'postgres', async (client) => {
    await client.query(`create role ${READER} login password ${pg.escapeLiteral(password)}`)
    await client.query(`alter role ${READER} set default_transaction_read_only = on`)
    await client.query('revoke connect, temporary on database postgres, template1 from public')
  })
  await onDatabase(address, 'template1', async (client) => {
    await client.query(TEMPLATE_SQL)
    await closeOpenFunctions(client)
    await client.query(REOPENED_SQL)
  })
  return password
}

async function make(address: DatabaseAddress, name: string, sql: readonly string[]): Promise<void> {
  await onDatabase(address, 'postgres', async (client) => {
    await client.query(`drop database if exists ${name} with (force)`)
    await client.query(`create database ${name} template template1`)
    await client.query(`revoke all on database ${name} from public`)
  })
  // One after another: a process keeps in memory, and locks until it commits, whatever tables it made.
  for (const part of sql) await onDatabase(address, name, (client) => client.query(part))
  // Nobody comes in before everything is there.
  await onDatabase(address, 'postgres', (client) => client.query(`grant connect on database ${name} to ${READER}`))
}

async function onDatabase(address: DatabaseAddress, database: string, work: (client: pg.Client) => Promise<unknown>) {
  const { host, port, user, password } = address
  const client = new pg.Client({ host, port, user, password, database, statement_timeout: 60_000 })
  client.on('error', () => undefined)
  await client.connect()
  try {
    await work(client)
  } finally {
    await client.end()
  }
}
