/** Which tables of a connection are read, and how: what the deployed products ask for, taken together. */
import { type Connector, type DiscoveredTable, SluiceError } from '@sluice/sdk'
import { isNamed, qualified } from '../manifest/context.ts'
import type { DeleteMode, Input } from '../manifest/manifest-set.ts'

export interface SourceTable {
  readonly schema: string
  readonly table: string
  /** `schema.table`: its name in runs, states and the lake. */
  readonly name: string
  readonly inputs: readonly Input[]
}

/** One entry a table, in a fixed order, however many products read it. */
export function tablesOf(inputs: readonly Input[]): readonly SourceTable[] {
  const byName = new Map<string, Input[]>()
  for (const input of inputs) {
    const name = qualified(input.table)
    byName.set(name, [...(byName.get(name) ?? []), input])
  }
  return [...byName].sort(([a], [b]) => (a < b ? -1 : 1)).map(([name, asked]) => sourceTable(name, asked))
}

/** @param name `schema.table` */
export function sourceTable(name: string, inputs: readonly Input[]): SourceTable {
  const dot = name.indexOf('.')
  return { schema: name.slice(0, dot), table: name.slice(dot + 1), name, inputs }
}

/** The tables in groups: those that one product reads are in one, and so are those of products that share a table. */
export function groupsOf(
  tables: readonly SourceTable[],
  readers: readonly (readonly SourceTable[])[],
): readonly (readonly SourceTable[])[] {
  const groups = new Map(tables.map(({ name }) => [name, name]))
  for (const own of readers) {
    const joined = new Set(own.map(({ name }) => groups.get(name)))
    const [first] = joined
    for (const [name, group] of groups) if (first !== undefined && joined.has(group)) groups.set(name, first)
  }
  return [...Map.groupBy(tables, ({ name }) => groups.get(name)).values()]
}

export interface ReadMode {
  readonly mode: 'full' | 'incremental' | 'cdc'
  /** Why it is that one, in words. */
  readonly reason: string
  readonly cursorColumn: string | null
  readonly primaryKey: readonly string[]
  /** How rows that are gone are found: `implied` by reading all that there are, told by the `log`. */
  readonly deletes: DeleteMode | 'implied' | 'log'
  /** Why they are left unseen; null where they are not. */
  readonly deletesReason: string | null
}

/**
 * Incremental where everybody who reads the table can live with it and it has a cursor and a key; full otherwise. A
 * primary key is never taken for a cursor: it would miss updates. Rows that are gone are looked for as soon as one
 * reader wants to know of them.
 */
export function readMode(
  table: Pick<SourceTable, 'name' | 'inputs'>,
  found: Pick<DiscoveredTable, 'suggestedCursor' | 'primaryKey'>,
): ReadMode {
  const named = (pick: (input: Input) => string | null) =>
    table.inputs.map(pick).find((value) => value !== null) ?? null
  const cursorColumn = named((input) => input.cursorColumn) ?? found.suggestedCursor
  const asked = table.inputs.find((input) => input.primaryKey.length > 0)?.primaryKey
  const primaryKey = asked ?? found.primaryKey
  const full = table.inputs.find((input) => input.mode === 'full')
  const told = table.inputs.filter((input) => input.mode === 'cdc')
  const log = told.find(({ isChosen }) => isChosen !== true) ?? told[0]
  if (log && !full) return byLog(table, found, log)
  const incremental = !full && cursorColumn !== null && primaryKey.length > 0
  const needsIncremental = table.inputs.find((input) => input.mode === 'incremental')
  if (needsIncremental && !incremental && !full) {
    throw new SluiceError('INVALID_DATA', `${table.name} cannot be read incrementally`, {
      code: 'incremental_not_possible',
      remedy: 'Name a cursor_column and a primary_key in inputs.yaml, or use mode: full.',
    })
  }
  if (!incremental) {
    const lacks = primaryKey.length === 0 ? 'no primary key' : 'no column that grows with every change'
    const reason = full ? `the input "${full.name}" asks for it` : `the table has ${lacks}`
    const whole = { cursorColumn: null, primaryKey: [], deletes: 'implied', deletesReason: null } as const
    return { mode: 'full', reason, ...whole }
  }
  const reason = needsIncremental
    ? `the input "${needsIncremental.name}" asks for it`
    : `the table has a primary key, and ${cursorColumn} grows with every change`
  return { mode: 'incremental', reason, cursorColumn, primaryKey, ...deletesOf(table.inputs) }
}

/** By what its versions say or have taken, and for everybody who reads the table but for one who wants it whole. */
export function isReadByLog({ inputs }: Pick<SourceTable, 'inputs'>): boolean {
  return inputs.some(({ mode }) => mode === 'cdc') && !inputs.some(({ mode }) => mode === 'full')
}

/** By the key that the source enforces: its log finds rows by no other. */
function byLog(
  { name, inputs }: Pick<SourceTable, 'name' | 'inputs'>,
  { primaryKey }: Pick<DiscoveredTable, 'primaryKey'>,
  asks: Input,
): ReadMode {
  if (primaryKey.length === 0) {
    throw new SluiceError('INVALID_DATA', `${name} cannot be read by its log: it has no primary key`, {
      code: 'changes_refused',
      remedy: 'Give the table a primary key, or use mode: full.',
    })
  }
  const taken = inputs.every(({ isChosen }) => isChosen === true)
    ? 'no mode is written, and the log of its source tells what has changed and what is gone'
    : `the input "${asks.name}" names no mode, and its version took the log of the source for it`
  const reason = asks.isChosen === true ? taken : `the input "${asks.name}" asks for it`
  return { mode: 'cdc', reason, cursorColumn: null, primaryKey, deletes: 'log', deletesReason: null }
}

function deletesOf(inputs: readonly Input[]): Pick<ReadMode, 'deletes' | 'deletesReason'> {
  if (inputs.some((input) => input.deletes === 'key_sweep')) return { deletes: 'key_sweep', deletesReason: null }
  const reason = inputs.find((input) => input.deletesReason !== undefined)?.deletesReason
  return { deletes: 'unseen', deletesReason: reason ?? 'the version was deployed before deletes were looked for' }
}

const PAGE = 500
const MAX_PAGES = 100

/** What the source says of these tables; throws INVALID_DATA `source_table_not_found` where one is not there. */
export async function discoverTables(
  connector: Connector,
  names: readonly string[],
  signal: AbortSignal,
): Promise<ReadonlyMap<string, DiscoveredTable>> {
  const found = new Map<string, DiscoveredTable>()
  let after: string | null = null
  for (let page = 0; page < MAX_PAGES && found.size < names.length; page += 1) {
    const answer = await connector.discover({ after, limit: PAGE }, signal)
    for (const table of answer.tables) {
      const name = names.find((one) => isNamed(table, one))
      if (name !== undefined) found.set(name, table)
    }
    after = answer.next
    if (after === null) break
  }
  return found
}

export function tableNotFound(name: string): SluiceError {
  return new SluiceError('INVALID_DATA', `the source has no table ${name} that its login may read`, {
    code: 'source_table_not_found',
    remedy: 'Check the name in inputs.yaml, and grant SELECT on it to the login of the connection.',
  })
}
