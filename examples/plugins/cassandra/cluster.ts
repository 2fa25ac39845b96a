/** The connection to a cluster: laid out, and guarded, so that nothing that the driver says leaves in an error. */
import { isSluiceError, SluiceError } from '@sluice/sdk'
import cassandra from 'cassandra-driver'
import type { Settings } from './settings.ts'

const CONNECT_MS = 5000
const READ_MS = 12_000
const PAGE_ROWS = 1000
const CONCURRENT_WRITES = 64

/**
 * A dataset's row is the pointer: whoever changes it in one conditional statement makes an epoch visible. Rows lie in
 * parts of a generation, newest version first; a version counts when its attempt stands in the pointer.
 */
const TABLES = [
  `CREATE TABLE IF NOT EXISTS datasets (
    tenant text, domain text, product text, variant text, id uuid, shape text, config text, policy text,
    fence varint, epoch bigint, epoch_fence varint, committed_at text, generation uuid, attempts map<bigint, uuid>,
    PRIMARY KEY ((tenant), domain, product, variant))`,
  `CREATE TABLE IF NOT EXISTS rows (
    dataset uuid, generation uuid, part int, key text, epoch bigint, attempt uuid, cells text,
    PRIMARY KEY ((dataset, generation, part), key, epoch, attempt))
    WITH CLUSTERING ORDER BY (key ASC, epoch DESC, attempt ASC)`,
  'CREATE TABLE IF NOT EXISTS generations (dataset uuid, generation uuid, epoch bigint, PRIMARY KEY ((dataset), generation))',
]

export type Found = Readonly<Record<string, unknown>>

export class Cluster {
  readonly #client: cassandra.Client
  #isReachable = true

  constructor(client: cassandra.Client) {
    this.#client = client
  }

  /** What the last statement showed. */
  get isReachable(): boolean {
    return this.#isReachable
  }

  async all(query: string, values: readonly unknown[], timeoutMs = READ_MS): Promise<readonly Found[]> {
    const options = { prepare: true, readTimeout: timeoutMs, consistency: cassandra.types.consistencies.localQuorum }
    const { rows } = await this.#guarded(() => this.#client.execute(query, [...values], options))
    return rows as unknown as readonly Found[]
  }

  /** Reads with the decisions of all conditional statements that were begun before. */
  async decided(query: string, values: readonly unknown[]): Promise<Found | undefined> {
    const options = { prepare: true, consistency: cassandra.types.consistencies.localSerial, readTimeout: READ_MS }
    const { rows } = await this.#guarded(() => this.#client.execute(query, [...values], options))
    return rows[0] as unknown as Found | undefined
  }

  /** Whether the condition held and the statement was done. */
  async conditionally(query: string, values: readonly unknown[]): Promise<boolean> {
    const result = await this.#guarded(() => this.#client.execute(query, [...values], { prepare: true }))
    return result.wasApplied()
  }

  /** All of these with one statement, some at a time. */
  async many(query: string, rows: readonly (readonly unknown[])[]): Promise<void> {
    const parameters = rows.map((row) => [...row])
    const options = { concurrencyLevel: CONCURRENT_WRITES, raiseOnFirstError: true }
    await this.#guarded(() => cassandra.concurrent.executeConcurrent(this.#client, query, parameters, options))
  }

  /** Page by page, so that memory stays bounded. */
  async *pages(query: string, values: readonly unknown[], timeoutMs = READ_MS): AsyncGenerator<readonly Found[]> {
    let pageState: string | undefined
    do {
      const options = {
        prepare: true,
        fetchSize: PAGE_ROWS,
        readTimeout: timeoutMs,
        ...(pageState ? { pageState } : {}),
      }
      const result = await this.#guarded(() => this.#client.execute(query, [...values], options))
      yield result.rows as unknown as readonly Found[]
      pageState = result.pageState ?? undefined
    } while (pageState !== undefined)
  }

  close(): Promise<void> {
    return this.#client.shutdown()
  }

  async #guarded<T>(run: () => Promise<T>): Promise<T> {
    try {
      const result = await run()
      this.#isReachable = true
      return result
    } catch (error) {
      const told = translated(error)
      if (told.code === 'store_unavailable') this.#isReachable = false
      throw told
    }
  }
}

/** Connects within seconds or throws TRANSIENT; makes the keyspace and the store's own tables where they are not there. */
export async function openCluster(settings: Settings): Promise<Cluster> {
  if (!/^[a-z][a-z0-9_]{0,47}$/.test(settings.keyspace)) throw invalidKeyspace()
  const client = new cassandra.Client({
    contactPoints: [...settings.contact_points],
    localDataCenter: settings.local_data_center,
    protocolOptions: { port: settings.port ?? 9042 },
    socketOptions: { connectTimeout: CONNECT_MS, readTimeout: READ_MS },
    encoding: { useBigIntAsLong: true, useBigIntAsVarint: true },
    ...(settings.username === undefined
      ? {}
      : { credentials: { username: settings.username, password: settings.password ?? '' } }),
  })
  try {
    await client.connect()
    await layOut(client, settings)
    return new Cluster(client)
  } catch (error) {
    await client.shutdown().catch(() => undefined)
    throw translated(error)
  }
}

async function layOut(client: cassandra.Client, { keyspace, replication_factor: factor = 1 }: Settings): Promise<void> {
  const replication = `{'class': 'SimpleStrategy', 'replication_factor': ${factor}}`
  await client.execute(`CREATE KEYSPACE IF NOT EXISTS ${keyspace} WITH replication = ${replication}`)
  await client.execute(`USE ${keyspace}`)
  for (const table of TABLES) await client.execute(table)
}

function invalidKeyspace(): SluiceError {
  return new SluiceError('CONFIG', 'the keyspace is not a name that the store takes', {
    code: 'invalid_settings',
    remedy: 'Use small letters, digits and underscores, 48 at most.',
    details: { pointer: '/keyspace' },
  })
}

function translated(cause: unknown): SluiceError {
  if (isSluiceError(cause)) return cause
  const name = (cause as { readonly name?: string }).name
  if (name === 'AuthenticationError') {
    const remedy = 'Correct username and password in the settings of the store.'
    return new SluiceError('PERMISSION', 'the store does not let this login in', {
      code: 'login_refused',
      remedy,
      cause,
    })
  }
  if (name === 'ArgumentError') {
    const remedy = 'Check local_data_center and contact_points in the settings of the store.'
    return new SluiceError('CONFIG', 'the settings do not fit the cluster', { code: 'invalid_settings', remedy, cause })
  }
  if (name === 'ResponseError' && !isPassing((cause as { readonly code?: number }).code ?? 0)) {
    return new SluiceError('INTERNAL', 'the store refused a statement', { code: 'store_failed', cause })
  }
  const remedy = 'Check that the cluster runs and can be reached.'
  return new SluiceError('TRANSIENT', 'the store does not answer', { code: 'store_unavailable', remedy, cause })
}

/** Unavailable, overloaded, bootstrapping, truncation, time-outs, failures: section 9 of the native protocol. */
function isPassing(code: number): boolean {
  return code >= 0x1000 && code < 0x2000
}
