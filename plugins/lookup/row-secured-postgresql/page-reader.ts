/** Runs pages: point reads on the pipelined connections, everything else on connections of its own. */
import { type Clock, isCalledOff, type ReadBatch, type ReadPlan } from '@sluice/sdk'
import { type DatasetKey, keyValues, notMaterialized, placeLost, STANDS, STORE_SCHEMA } from './datasets.ts'
import { type Caller, type Deadline, Deadlines, endOf, type Watched } from './deadlines.ts'
import { isConnectionLoss, originalError, sqlState, storeError, wasEnded, wasRefused } from './driver-errors.ts'
import { quoteLiteral } from './identifiers.ts'
import type { Planning, Statement, TextRow } from './one-sync.ts'
import { decodePage, type Page, pageStatement, pointGroup, pointStatements } from './page-query.ts'
import { type PointAnswer, type PointRead, PointReads, type ReadKeys } from './point-reads.ts'
import { Parameters, type ServedColumn } from './predicates.ts'
import type { Sessions } from './sessions.ts'

/** `fast-custom`: planned for each read, where only that leaves out what lies beyond its bounds. */
export type Lane = 'fast' | 'fast-custom' | 'slow'

/** Which table serves a dataset, as it was last seen; every read checks it. */
interface Resolved {
  readonly relation: string
  /** Of the table, of all tenants and at every depth; one more than may be planned at once stands for more. */
  readonly partitions: number
  readonly atMs: number
}

const MAX_RESOLVED = 20_000

/**
 * How many partitions a plan that is kept may have. It locks them all at each run, though it opens those alone that its values
 * leave, and takes 10 to 20 KB of the server's memory for each.
 */
const MAX_GENERIC_PARTITIONS = 100

/** Tenants come and go: how long their number is believed. */
const RESOLVED_FOR_MS = 60_000

/** PostgreSQL's word for a table that is not there. */
const GONE = '42P01'

const WHERE = 'where tenant_id = $1 and domain = $2 and product = $3 and variant = $4 and endpoint = $5'

const EPOCH = `select epoch::text, relation, policy_version, ${STANDS}::text from ${STORE_SCHEMA}.datasets d ${WHERE}`

const RESOLVE = `select relation, epoch::text, (select count(*) from (
    with recursive below(oid) as (
      select i.inhrelid from pg_inherits i join pg_class c on c.oid = i.inhparent
        join pg_namespace n on n.oid = c.relnamespace where n.nspname = $6 and c.relname = d.relation
      union all select i.inhrelid from pg_inherits i join below b on i.inhparent = b.oid)
    select from below limit ${MAX_GENERIC_PARTITIONS + 1}) counted)::text
  from ${STORE_SCHEMA}.datasets d ${WHERE}`

export type PageParts = Omit<Page, 'relation'>

/**
 * What all reads by the key of one dataset have in common that show the same columns to readers under the same policy; made
 * once, so that a read binds its key and nothing else.
 */
export interface PointShape {
  readonly key: DatasetKey
  readonly schema: string
  readonly column: ServedColumn
  /** Without the key's condition. */
  readonly parts: PageParts
  /** What the conditions refer to. */
  readonly values: readonly (string | null)[]
}

/** A shape with the table that serves it. */
interface PlacedPoint {
  readonly name: string
  readonly resolved: Resolved
  readonly page: Page
  readonly group: string
  readonly read: ReadKeys
}

/** How a read that began among others goes on by itself. */
export interface ReadAlone extends Caller {
  /** What is left of its time. */
  readonly timeoutMs: number
  /** Absent: whichever it would take anyway. */
  readonly lane?: Lane
}

interface Read {
  readonly key: DatasetKey
  readonly schema: string
  readonly timeoutMs: number
  readonly deadline: Deadline
  readonly lane: Lane
}

function epochStatement({ key, schema }: Pick<Read, 'key' | 'schema'>): Statement {
  return { text: EPOCH, values: [...keyValues(key), schema] }
}

export class PageReader {
  readonly #sessions: Sessions
  readonly #clock: Clock
  readonly #deadlines: Deadlines
  readonly #points = new PointReads()
  readonly #resolved = new Map<string, Resolved>()
  readonly #placed = new WeakMap<PointShape, PlacedPoint>()

  constructor(sessions: Sessions, clock: Clock) {
    this.#sessions = sessions
    this.#clock = clock
    this.#deadlines = new Deadlines(clock)
  }

  /** Reads that are on still end in time. */
  close(): void {
    this.#deadlines.close()
  }

  /** `describe` binds its values to the parameters it is given; it is called again where the table has moved. */
  async read(
    key: DatasetKey,
    schema: string,
    plan: Caller & Pick<ReadPlan, 'timeoutMs'>,
    lane: Lane,
    describe: (parameters: Parameters) => PageParts,
  ): Promise<ReadBatch> {
    const deadline = this.#deadlines.start(plan.timeoutMs, plan)
    try {
      const read: Read = { key, schema, timeoutMs: plan.timeoutMs, deadline, lane }
      return await deadline.race(this.#read(read, describe))
    } finally {
      deadline.end()
    }
  }

  /**
   * The row under a key, with others that are asked for meanwhile. `alone` reads it by itself: where it is not known which
   * table serves it, or another one does by now, or the server has ended the statement.
   */
  point(
    shape: PointShape,
    key: string,
    plan: Caller & Pick<ReadPlan, 'timeoutMs'>,
    alone: (left: ReadAlone) => Promise<ReadBatch>,
  ): Promise<ReadBatch> {
    const placed = this.#place(shape)
    if (placed === null || isCalledOff(plan) || plan.timeoutMs <= 0) return alone(plan)
    const atMs = this.#clock.nowMs() + plan.timeoutMs
    return new Promise((resolve, reject) => {
      const goOn = (lane?: Lane) => {
        const nowMs = this.#clock.nowMs()
        const end = endOf(atMs, nowMs, plan)
        if (end !== null) return reject(end)
        const caller = { signal: plan.signal, isCalledOff: () => isCalledOff(plan) }
        resolve(alone({ ...caller, timeoutMs: atMs - nowMs, ...(lane === undefined ? {} : { lane }) }))
      }
      const close = () => this.#deadlines.unwatch(waiting)
      const waiting: PointRead & Watched = {
        key,
        look(nowMs) {
          const end = endOf(atMs, nowMs, plan)
          if (end !== null) this.reject(end)
        },
        resolve(answer) {
          close()
          try {
            const batch = batchOf(placed, answer)
            if (batch === null) goOn()
            else resolve(batch)
          } catch (error) {
            reject(error)
          }
        },
        reject(error) {
          close()
          // The rows may be in another table by now; or it took long, and is read where nobody queues behind it.
          if (wasRefused(originalError(error))) goOn()
          else if (wasEnded(originalError(error))) goOn('slow')
          else reject(error)
        },
      }
      this.#deadlines.watch(waiting)
      this.#points.ask(placed.group, waiting, placed.read)
    })
  }

  /** Null where the table has to be looked up. */
  #place(shape: PointShape): PlacedPoint | null {
    const known = this.#placed.get(shape)
    const name = known?.name ?? placeName(shape.key)
    const resolved = this.#known(name)
    if (resolved === null) return null
    if (known !== undefined && isSamePlace(known.resolved, resolved)) return known
    const page: Page = { ...shape.parts, relation: resolved.relation }
    const { key, column, values } = shape
    const { one, many } = pointStatements(page, column, values, resolved.partitions)
    const epoch = epochStatement(shape)
    const planning = planningOf(resolved)
    const run = (statement: Statement) =>
      this.#sessions.fast.read(key.tenant, planning, [epoch, statement]).catch((error: unknown) => {
        throw storeError(error, 'a read')
      })
    const read: ReadKeys = async (keys) => {
      const [only] = keys
      if (keys.length === 1 && only !== undefined) {
        const [lines, rows] = await run(one(only))
        return [{ dataset: lines?.[0], body: rows?.[0]?.[1] ?? null }]
      }
      const [lines, rows] = await run(many(keys))
      const bodies = new Map(rows?.map(([found, body]) => [found, body]))
      return keys.map((asked) => ({ dataset: lines?.[0], body: bodies.get(asked) ?? null }))
    }
    const placed: PlacedPoint = { name, resolved, page, group: pointGroup(key, many([])), read }
    this.#placed.set(shape, placed)
    return placed
  }

  async #read(read: Read, describe: (parameters: Parameters) => PageParts): Promise<ReadBatch> {
    const name = placeName(read.key)
    const known = this.#known(name)
    const believed = known ?? (await this.#resolve(read, name))
    let refusal: unknown = null
    try {
      const batch = await this.#page(read, believed, describe)
      if (batch !== null) return batch
    } catch (error) {
      // A table that the dataset has left stands on where others have rows in it, in the shape of those.
      if (known === null || !wasRefused(originalError(error))) throw error
      refusal = error
    }
    const found = await this.#resolve(read, name)
    if (refusal !== null && found.relation === believed.relation) throw refusal
    const batch = await this.#page(read, found, describe)
    if (batch !== null) return batch
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
    const planning = read.lane === 'fast' ? planningOf(resolved) : 'custom'
    const [dataset, rows] = await this.#rows(read, page, parameters, planning, resolved)
    if (dataset === null) return null
    return pageOf(page, dataset, rows)
  }

  /** The dataset's line and the rows, of one state; null for the line where the parent is gone. */
  async #rows(
    read: Read,
    page: Page,
    parameters: Parameters,
    planning: Planning,
    { partitions }: Resolved,
  ): Promise<readonly [TextRow | null | undefined, readonly TextRow[]]> {
    try {
      const statement = { ...pageStatement(page, parameters), partitions }
      const [lines, rows] = await this.#run(read, planning, [epochStatement(read), statement])
      return [lines?.[0], rows ?? []]
    } catch (error) {
      // The parent goes when nobody has rows in it: what is provisioned and unwritten may have none.
      if (sqlState(originalError(error)) === GONE) return [null, []]
      throw error
    }
  }

  /** Asks the register. */
  async #resolve(read: Read, name: string): Promise<Resolved> {
    const nowMs = this.#clock.nowMs()
    const [relation, epoch, partitions] = await this.#lookUp(read)
    if (!relation || !epoch) throw notMaterialized(read.key)
    const resolved = { relation, partitions: Number(partitions), atMs: nowMs }
    if (this.#resolved.size >= MAX_RESOLVED) this.#resolved.clear()
    this.#resolved.set(name, resolved)
    return resolved
  }

  #known(name: string): Resolved | null {
    const known = this.#resolved.get(name)
    return known !== undefined && this.#clock.nowMs() - known.atMs < RESOLVED_FOR_MS ? known : null
  }

  async #lookUp(read: Read): Promise<TextRow> {
    try {
      const statement = { text: RESOLVE, values: [...keyValues(read.key), read.schema] }
      const results = await this.#run({ ...read, lane: 'fast' }, 'generic', [statement])
      return results[0]?.[0] ?? []
    } catch (error) {
      // Nothing was ever provisioned in this database.
      if ([GONE, '3F000', '42501'].includes(sqlState(originalError(error)) ?? '')) return []
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
        if (!wasEnded(error) || read.deadline.isOver) throw storeError(error, 'a read')
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

function placeName({ endpoint, variant, product, domain, tenant }: DatasetKey): string {
  return `${endpoint}\0${variant}\0${product}\0${domain}\0${tenant}`
}

function isSamePlace(left: Resolved, right: Resolved): boolean {
  return left.relation === right.relation && left.partitions === right.partitions
}

function planningOf({ partitions }: Resolved): Planning {
  return partitions <= MAX_GENERIC_PARTITIONS ? 'generic' : 'custom'
}

/** Null where the register names another table by now. */
function pageOf(page: Page, dataset: TextRow | undefined, rows: readonly TextRow[]): ReadBatch | null {
  const [epoch, relation, policyVersion, stands] = dataset ?? []
  if (relation !== page.relation) return null
  if (!epoch) throw notMaterialized(page.key)
  if (stands !== 'true') throw placeLost(page.key)
  // Before a policy is installed there are no rows.
  return decodePage(page, Number(epoch), policyVersion === null ? [] : rows)
}

function batchOf({ page }: PlacedPoint, { dataset, body }: PointAnswer): ReadBatch | null {
  return pageOf(page, dataset, body === null ? [] : [['1', body, null]])
}
