/** The rows of a copy beside those of the lake, a few at a time: whether they are the same, in whatever order. */
import { hash } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import {
  type Capabilities,
  type ColumnBatch,
  type KeyTemplate,
  type LogicalType,
  parseKeyTemplate,
  type ReadBatch,
  type ReadPlan,
  type Row,
  renderKey,
  rowsOf,
  type ServingPlugin,
  type ServingStore,
  SluiceError,
  type TableSchema,
  type Target,
  typeName,
  type Value,
} from '@sluice/sdk'
import { contractConfig } from '../manifest/contract-config.ts'

/** How fast rows may be compared, and for which part of the time. */
export interface PaceLimits {
  readonly rowsPerSecond: number
  /** 0 … 1: after work comes as long a rest that it is this part of both. */
  readonly share: number
}

export interface PaceTime {
  nowMs(): number
  sleep(ms: number, signal: AbortSignal): Promise<void>
}

const PROCESS_TIME: PaceTime = {
  nowMs: () => performance.now(),
  sleep: (ms, signal) => sleep(ms, undefined, { signal }),
}

/** Keeps comparisons from taking what readers and syncs need. */
export class Pace {
  readonly #limits: PaceLimits
  readonly #time: PaceTime
  #freeAtMs = 0
  #pausedMs = 0

  constructor(limits: PaceLimits, time: PaceTime = PROCESS_TIME) {
    this.#limits = limits
    this.#time = time
  }

  /** Rows that were just handled; waits where they were too many in this time. */
  async rows(count: number, signal: AbortSignal): Promise<void> {
    const now = this.#time.nowMs()
    this.#freeAtMs = Math.max(now, this.#freeAtMs) + (count * 1_000) / this.#limits.rowsPerSecond
    if (this.#freeAtMs - now > SHORT_MS) await this.#pause(this.#freeAtMs - now, signal)
  }

  /** Does the work, and rests after it. */
  async within<T>(signal: AbortSignal, work: () => Promise<T>): Promise<T> {
    const [sinceMs, pausedMs] = [this.#time.nowMs(), this.#pausedMs]
    try {
      return await work()
    } finally {
      const workedMs = this.#time.nowMs() - sinceMs - (this.#pausedMs - pausedMs)
      const restMs = workedMs * (1 / this.#limits.share - 1)
      // A rest that is broken off leaves what was done as it is.
      if (!signal.aborted && restMs > 0) await this.#pause(restMs, signal).catch(() => undefined)
    }
  }

  async #pause(ms: number, signal: AbortSignal): Promise<void> {
    const sinceMs = this.#time.nowMs()
    await this.#time.sleep(ms, signal)
    this.#pausedMs += this.#time.nowMs() - sinceMs
  }
}

const SHORT_MS = 20

export interface CopyPlace {
  readonly plugin: ServingPlugin
  readonly store: ServingStore
  readonly target: Target
  readonly epoch: number
  readonly policyVersion: string
}

/** How a copy's rows can be asked for: all of them in pages, one by one under their keys, or not at all. */
export type CopyAccess =
  | { readonly kind: 'pages' }
  | { readonly kind: 'keys'; readonly template: KeyTemplate }
  | { readonly kind: 'none' }

/**
 * Rows without an identity may be equal, and pages of a store have no place between equal rows; a key that is not made of
 * the identity may be that of several rows.
 */
export function accessTo({ plugin, target }: Pick<CopyPlace, 'plugin' | 'target'>): CopyAccess {
  const { primaryKey } = target.schema
  const { operations } = plugin.capabilities
  if (primaryKey.length === 0) return { kind: 'none' }
  if (operations.includes('scan')) return { kind: 'pages' }
  const { key_template: text } = contractConfig(plugin.type, target.config)
  const template = text === undefined ? null : parseKeyTemplate(text)
  if (!operations.includes('key') || template === null || 'problem' in template) return { kind: 'none' }
  const isWhole = primaryKey.every((name) => template.parts.some(({ column }) => column === name))
  return isWhole ? { kind: 'keys', template } : { kind: 'none' }
}

/** Whether the copy has the rows and no others; `count` is how many it should have. */
export interface ComparedRows {
  readonly isEqual: boolean
  readonly count: number
}

/** @param lake the rows that the store was sent, in the columns of the target */
export async function compareRows(
  place: CopyPlace,
  access: Exclude<CopyAccess, { kind: 'none' }>,
  lake: AsyncIterable<ColumnBatch>,
  pace: Pace,
  signal: AbortSignal,
): Promise<ComparedRows> {
  const columns = comparedColumns(place)
  return access.kind === 'keys'
    ? compareByKey(place, access.template, columns, lake, pace, signal)
    : comparePages(place, columns, lake, pace, signal)
}

/** Reads any row with all of its columns, where the store can be asked so. Throws what the store throws. */
export async function readOne(place: CopyPlace, signal: AbortSignal): Promise<void> {
  if (!place.plugin.capabilities.operations.includes('scan')) return
  await readAll(place, { operation: 'scan', columns: keptColumns(place).map(({ name }) => name), limit: 1 }, signal)
}

function keptColumns({ plugin, target }: CopyPlace): TableSchema['columns'] {
  const { include_columns: included } = contractConfig(plugin.type, target.config)
  return target.schema.columns.filter(({ name }) => included?.includes(name) ?? true)
}

/** Those whose values come back as they were. */
function comparedColumns(place: CopyPlace): TableSchema['columns'] {
  return keptColumns(place).filter(({ type }) => isExact(place.plugin.capabilities, type))
}

const isExact = ({ types }: Capabilities, type: LogicalType) => types[typeName(type)] === 'exact'

async function comparePages(
  place: CopyPlace,
  columns: TableSchema['columns'],
  lake: AsyncIterable<ColumnBatch>,
  pace: Pace,
  signal: AbortSignal,
): Promise<ComparedRows> {
  const places = columns.map(({ name }) => place.target.schema.columns.findIndex((own) => own.name === name))
  const wanted = new RowSum(columns)
  for await (const rows of inSmallParts(lake)) {
    for (const row of rows) wanted.add(places.map((at) => row[at] ?? null))
    await pace.rows(rows.length, signal)
  }
  const found = new RowSum(columns)
  const names = columns.map(({ name }) => name)
  const limit = Math.min(PAGE_ROWS, place.plugin.capabilities.limits.maxReadRows)
  let after: readonly Value[] | undefined
  do {
    const page = await readAll(place, { operation: 'scan', columns: names, limit, ...(after ? { after } : {}) }, signal)
    for (const row of page.rows) found.add(row)
    after = page.next
    await pace.rows(page.rows.length, signal)
  } while (after !== undefined && found.count <= wanted.count)
  return { isEqual: found.equals(wanted), count: wanted.count }
}

async function compareByKey(
  place: CopyPlace,
  template: KeyTemplate,
  columns: TableSchema['columns'],
  lake: AsyncIterable<ColumnBatch>,
  pace: Pace,
  signal: AbortSignal,
): Promise<ComparedRows> {
  const { schema } = place.target
  const at = new Map(schema.columns.map(({ name }, index) => [name, index]))
  const names = columns.map(({ name }) => name)
  let [count, differing] = [0, 0]
  const isThere = async (row: Row, key: string): Promise<boolean> => {
    const { rows } = await readAll(place, { operation: 'key', key, columns: names, limit: 1 }, signal)
    const wanted = columns.map(({ name }) => row[at.get(name) ?? -1] ?? null)
    return rows.length === 1 && rowText(columns, rows[0] as Row) === rowText(columns, wanted)
  }
  for await (const rows of inSmallParts(lake)) {
    const keyed = rows.flatMap((row) => {
      const key = renderKey(template, schema, (name) => row[at.get(name) ?? -1] ?? null)
      return key === null ? [] : [{ row, key }]
    })
    count += keyed.length
    for (let from = 0; from < keyed.length && differing === 0; from += KEYS_AT_ONCE) {
      const some = keyed.slice(from, from + KEYS_AT_ONCE)
      const there = await Promise.all(some.map(({ row, key }) => isThere(row, key)))
      differing += there.filter((one) => !one).length
    }
    await pace.rows(rows.length, signal)
  }
  return { isEqual: differing === 0, count }
}

/** So few that the event loop is nobody's for long. */
const PAGE_ROWS = 1_000
const KEYS_AT_ONCE = 8

async function* inSmallParts(batches: AsyncIterable<ColumnBatch>): AsyncGenerator<readonly Row[]> {
  for await (const batch of batches) {
    const rows = [...rowsOf(batch)]
    for (let from = 0; from < rows.length; from += PAGE_ROWS) yield rows.slice(from, from + PAGE_ROWS)
  }
}

const READ_TIMEOUT_MS = 60_000

/** Throws TRANSIENT `epoch_moved` where the answer is of another epoch. */
async function readAll(
  { store, target, epoch, policyVersion }: CopyPlace,
  asked: Pick<ReadPlan, 'operation' | 'columns' | 'limit' | 'after' | 'key'>,
  signal: AbortSignal,
): Promise<{ readonly rows: readonly Row[]; readonly next: readonly Value[] | undefined }> {
  const visibleColumns = target.schema.columns.map(({ name }) => name)
  const policy = { version: policyVersion, rows: { op: 'all' }, claims: {}, visibleColumns, maskedColumns: [] } as const
  const plan: ReadPlan = {
    ...{ filters: [], orderBy: [], policy, encoding: 'columns', ...asked },
    ...{ timeoutMs: READ_TIMEOUT_MS, signal },
  }
  const rows: Row[] = []
  let next: readonly Value[] | undefined
  for await (const batch of store.read(target, plan)) {
    if (batch.epoch !== epoch) throw epochMoved()
    rows.push(...rowsOfBatch(batch))
    next = batch.next
  }
  return { rows, next }
}

function rowsOfBatch(batch: ReadBatch): readonly Row[] {
  return 'columns' in batch ? [...rowsOf(batch)] : []
}

function epochMoved(): SluiceError {
  return new SluiceError('TRANSIENT', 'another epoch was committed while the content was read', {
    code: 'epoch_moved',
    remedy: 'Ask again.',
  })
}

const WORDS = 8
const MODULUS = 2 ** 48

/** A sum over the hashes of rows: it has no order, and counts equal rows. */
class RowSum {
  readonly #columns: TableSchema['columns']
  readonly #words = new Array<number>(WORDS).fill(0)
  count = 0

  constructor(columns: TableSchema['columns']) {
    this.#columns = columns
  }

  add(row: Row): void {
    const digest = hash('sha256', rowText(this.#columns, row), 'buffer')
    for (let word = 0; word < WORDS; word += 1) {
      this.#words[word] = ((this.#words[word] as number) + digest.readUInt32BE(word * 4)) % MODULUS
    }
    this.count += 1
  }

  equals(other: RowSum): boolean {
    return this.count === other.count && this.#words.every((word, at) => word === other.#words[at])
  }
}

/** The same text for the same values, whichever way they came. */
export function rowText(columns: TableSchema['columns'], row: Row): string {
  return JSON.stringify(columns.map(({ type }, at) => cellText(row[at] ?? null, type)))
}

function cellText(value: Value, type: LogicalType): string | null {
  if (value === null) return null
  if (value instanceof Uint8Array) return Buffer.from(value).toString('base64')
  if (type === 'json') return documentText(String(value))
  return Object.is(value, -0) ? '-0' : String(value)
}

/**
 * Documents are equal whose values are: stores may write their spaces, numbers and order in another way. The document null is
 * null, which it is in every answer.
 */
function documentText(text: string): string | null {
  try {
    const document: unknown = JSON.parse(text)
    if (document === null) return null
    return JSON.stringify(document, (_, value: unknown) =>
      typeof value === 'object' && value !== null && !Array.isArray(value)
        ? Object.fromEntries(Object.entries(value).sort(([one], [other]) => (one < other ? -1 : 1)))
        : value,
    )
  } catch {
    // SQL makes documents that JSON does not know.
    return text
  }
}
