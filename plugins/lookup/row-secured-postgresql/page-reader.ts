/** Runs pages: point reads on the pipelined connections, everything else on connections of its own. */
import type { Clock, ReadBatch, ReadPlan } from '@sluice/sdk'
import { type DatasetKey, keyValues, notMaterialized, placeLost, STANDS, STORE_SCHEMA } from './datasets.ts'
import { type Deadline, Deadlines } from './deadlines.ts'
import { isConnectionLoss, originalError, sqlState, storeError } from './driver-errors.ts'
import { quoteLiteral } from './identifiers.ts'
import type { Planning, Statement, TextRow } from './one-sync.ts'
import { decodePage, type Page, type PointKey, pageStatement, pointGroup, pointsStatement } from './page-query.ts'
import { type PointAnswer, PointReads } from './point-reads.ts'
import { Parameters } from './predicates.ts'
import type { Sessions } from './sessions.ts'

/** `deep`: the tenant's partition is itself partitioned, which only planning for the tenant can prune. */
export type Lane = 'fast' | 'fast-deep' | 'slow'

/** Which table serves a dataset, as it was last seen; every read checks it. */
interface Resolved {
  readonly relation: string
  /** How many tenants share the table. */
  readonly partitions: number
  readonly atMs: number
}

const MAX_RESOLVED = 20_000

/** How many partitions a plan for any tenant may lock at each run before planning anew is cheaper. */
const MAX_GENERIC_PARTITIONS = 100

/** Tenants come and go: how long their number is believed. */
const RESOLVED_FOR_MS = 60_000

const WHERE = 'where tenant_id = $1 and domain = $2 and product = $3 and variant = $4 and endpoint = $5'

const EPOCH = `select epoch::text, relation, policy_version, ${STANDS}::text from ${STORE_SCHEMA}.datasets d ${WHERE}`

const RESOLVE = `select relation, epoch::text, (select count(*) from pg_inherits i join pg_class c on c.oid = i.inhparent
    join pg_namespace n on n.oid = c.relnamespace where n.nspname = $6 and c.relname = d.relation)::text
  from ${STORE_SCHEMA}.datasets d ${WHERE}`

export type PageParts = Omit<Page, 'relation'>

interface Read {
  readonly key: DatasetKey
  readonly schema: string
  readonly timeoutMs: number
  readonly deadline: Deadline
  readonly lane: Lane
}

function epochStatement({ key, schema }: Read): Statement {
  return { text: EPOCH, values: [...keyValues(key), schema] }
}

export class PageReader {
  readonly #sessions: Sessions
  readonly #clock: Clock
  readonly #deadlines: Deadlines
  readonly #points = new PointReads()
  readonly #resolved = new Map<string, Resolved>()

  constructor(sessions: Sessions, clock: Clock) {
    this.#sessions = sessions
    this.#clock = clock
    this.#deadlines = new Deadlines(clock)
  }

  /** `describe` binds its values to the parameters it is given; it is called again where the table has moved. */
  async read(
    key: DatasetKey,
    schema: string,
    plan: Pick<ReadPlan, 'timeoutMs' | 'signal'>,
    lane: Lane,
    describe: (parameters: Parameters) => PageParts,
  ): Promise<ReadBatch> {
    const deadline = this.#deadlines.start(plan.timeoutMs, plan.signal)
    try {
      const read: Read = { key, schema, timeoutMs: plan.timeoutMs, deadline, lane }
      return await deadline.race(this.#read(read, describe))
    } finally {
      deadline.end()
    }
  }

  async #read(read: Read, describe: (parameters: Parameters) => PageParts): Promise<ReadBatch> {
    for (const fresh of [false, true]) {
      const resolved = await this.#resolve(read, fresh)
      const batch = await this.#page(read, resolved, describe)
      if (batch !== null) return batch
    }
    throw notMaterialized(read.key)
  }

  /** Null where the register names another table by now, or the table is gone. */
  async #page(
    read: Read,
    resolved: Resolved,
    describe: (parameters: Parameters) => PageParts,
  ): Promise<ReadBatch | null> {
    const parameters = new Parameters()
    const page: Page = { ...describe(parameters), relation: resolved.relation }
    const planning = read.lane === 'fast' && resolved.partitions <= MAX_GENERIC_PARTITIONS ? 'generic' : 'custom'
    const [dataset, rows] = await this.#rows(read, page, parameters, planning)
    if (dataset === null) return null
    const [epoch, relation, policyVersion, stands] = dataset ?? []
    if (relation !== resolved.relation) return null
    if (!epoch) throw notMaterialized(read.key)
    if (stands !== 'true') throw placeLost(read.key)
    // Before a policy is installed there are no rows.
    return decodePage(page, Number(epoch), policyVersion === null ? [] : rows)
  }

  /** The dataset's line and the rows, of one state; null for the line where the parent is gone. */
  async #rows(
    read: Read,
    page: Page,
    parameters: Parameters,
    planning: Planning,
  ): Promise<readonly [TextRow | null | undefined, readonly TextRow[]]> {
    try {
      if (page.point && read.lane === 'fast') return await this.#point(read, page, page.point, parameters, planning)
      const statement = pageStatement(page, parameters)
      const [lines, rows] = await this.#run(read, planning, [epochStatement(read), statement])
      return [lines?.[0], rows ?? []]
    } catch (error) {
      // The parent goes when nobody has rows in it: what is provisioned and unwritten may have none.
      if (sqlState(originalError(error)) === '42P01') return [null, []]
      throw error
    }
  }

  async #point(
    read: Read,
    page: Page,
    point: PointKey,
    parameters: Parameters,
    planning: Planning,
  ): Promise<readonly [TextRow | undefined, readonly TextRow[]]> {
    const { values } = parameters
    const readKeys = async (keys: readonly string[]): Promise<readonly PointAnswer[]> => {
      const own = new Parameters(values)
      const [only] = keys
      if (keys.length === 1 && only !== undefined) {
        const statement = pageStatement({ ...page, point: { ...point, text: only } }, own)
        const [lines, rows] = await this.#run(read, planning, [epochStatement(read), statement])
        return [{ dataset: lines?.[0], body: rows?.[0]?.[1] ?? null }]
      }
      const statement = pointsStatement(page, point, keys, own)
      const [lines, rows] = await this.#run(read, planning, [epochStatement(read), statement])
      const bodies = new Map(rows?.map(([key, body]) => [key, body]))
      return keys.map((key) => ({ dataset: lines?.[0], body: bodies.get(key) ?? null }))
    }
    const { dataset, body } = await this.#points.read(pointGroup(page, values), point.text, readKeys)
    return [dataset, body === null ? [] : [['1', body, null]]]
  }

  async #resolve(read: Read, fresh: boolean): Promise<Resolved> {
    const { key } = read
    const name = `${key.endpoint}\0${key.variant}\0${key.product}\0${key.domain}\0${key.tenant}`
    const known = this.#resolved.get(name)
    const nowMs = this.#clock.nowMs()
    if (known !== undefined && !fresh && nowMs - known.atMs < RESOLVED_FOR_MS) return known
    const [relation, epoch, partitions] = await this.#lookUp(read)
    if (!relation || !epoch) throw notMaterialized(key)
    const resolved = { relation, partitions: Number(partitions), atMs: nowMs }
    if (this.#resolved.size >= MAX_RESOLVED) this.#resolved.clear()
    this.#resolved.set(name, resolved)
    return resolved
  }

  async #lookUp(read: Read): Promise<TextRow> {
    try {
      const statement = { text: RESOLVE, values: [...keyValues(read.key), read.schema] }
      const results = await this.#run({ ...read, lane: 'fast' }, 'generic', [statement])
      return results[0]?.[0] ?? []
    } catch (error) {
      // Nothing was ever provisioned in this database.
      if (['42P01', '3F000', '42501'].includes(sqlState(originalError(error)) ?? '')) return []
      throw error
    }
  }

  async #run(
    read: Read,
    planning: Planning,
    statements: readonly Statement[],
  ): Promise<readonly (readonly TextRow[])[]> {
    if (read.lane !== 'slow') {
      try {
        return await this.#sessions.fast.read(read.key.tenant, planning, statements)
      } catch (error) {
        // What takes long is read again where nobody queues behind it.
        if (sqlState(error) !== '57014' || read.deadline.isOver) throw storeError(error, 'a read')
      }
    }
    try {
      return await this.#runAlone(read, statements)
    } catch (error) {
      if (read.deadline.isOver || !isConnectionLoss(originalError(error))) throw error
      return await this.#runAlone(read, statements)
    }
  }

  async #runAlone(read: Read, statements: readonly Statement[]): Promise<readonly (readonly TextRow[])[]> {
    const timeout = quoteLiteral(String(Math.max(1, Math.ceil(read.timeoutMs))))
    return await this.#sessions.transaction(
      'reader',
      read.key.tenant,
      'a read',
      async (client) => {
        await client.query(`set local statement_timeout = ${timeout}`)
        const results: (readonly TextRow[])[] = []
        for (const { text, values } of statements) {
          const result = await client.query<(string | null)[]>({ text, values: [...values], rowMode: 'array' })
          results.push(result.rows)
        }
        return results
      },
      read.deadline.signal,
    )
  }
}
