/** What a version reads: its sources asked for their tables, its author's rights to them, its SQL bound to them. */

import {
  type ComparableColumn,
  type EngineRun,
  type EngineTable,
  type InspectOutput,
  quoteName,
  type SourceColumn,
} from '@sluice/engine'
import { toTableSchema } from '@sluice/iceberg'
import { isSluiceError, SluiceError } from '@sluice/sdk'
import type { TenantCall } from '../../flow.ts'
import { SANDBOX } from '../../lake/tenant-layout.ts'
import { DEFAULT_SCHEMA, fullName, isNamed, qualified, type SourceTable } from '../../manifest/context.ts'
import type { Input, ManifestSet } from '../../manifest/manifest-set.ts'
import { outputSchema } from '../../manifest/manifest-set.ts'
import type { Problem } from '../../manifest/problem.ts'
import { takesAnyShape } from '../../manifest/schema-contract.ts'
import { rawTable } from '../../materializer/inputs.ts'
import { rawColumn } from '../../quality/check-readings.ts'
import type { Connection } from '../../registry/connections.ts'
import { latestEpoch } from '../../registry/materializations.ts'
import { PRODUCTS } from '../../registry/product-sources.ts'
import type { HeldShapes, JudgedColumns } from '../../registry/versions.ts'
import { discoverAll } from '../connections/connections.ts'
import { mayReadRaw } from '../rights/raw-rights.ts'
import { bind } from './bind-sql.ts'
import type { ColumnOrigin, Comparable } from './column-classes.ts'
import type { DeployDeps } from './deps.ts'
import { withColumnsAtFault } from './transform-columns.ts'
import { type Upstreams, upstreamTables } from './upstreams.ts'

export interface Sources {
  readonly tables: ReadonlyMap<string, readonly SourceTable[] | null>
  readonly estimates: ReadonlyMap<string, number | null>
  readonly warnings: readonly Problem[]
}

/** A source that does not answer is a warning: a deploy must not depend on it. */
export async function discoverSources(
  platform: DeployDeps,
  call: TenantCall,
  manifests: ManifestSet,
  connections: ReadonlyMap<string, Connection>,
  upstreams: Upstreams,
): Promise<Sources> {
  const tables = new Map<string, readonly SourceTable[] | null>()
  const estimates = new Map<string, number | null>()
  const warnings: Problem[] = []
  for (const [name, connection] of connections) {
    try {
      const found = await discoverAll(platform, connection, call.signal)
      tables.set(name, found)
      for (const table of found) estimates.set(`${name}:${fullName(table)}`, table.estimatedRows)
    } catch (error) {
      call.signal.throwIfAborted()
      if (!isSluiceError(error)) throw error
      tables.set(name, null)
      warnings.push({
        manifest: 'inputs',
        line: 1,
        column: 1,
        path: 'inputs',
        message: `the connection "${name}" could not be asked for its tables, so inputs were not checked against them`,
        hint: error.remedy ?? 'Test the connection.',
      })
    }
  }
  if (manifests.inputs.some((input) => input.connection === SANDBOX)) {
    tables.set(SANDBOX, await sandboxSources(platform, call))
  }
  if (manifests.inputs.some((input) => input.connection === PRODUCTS)) {
    tables.set(PRODUCTS, upstreamTables(upstreams))
    for (const [name, { product }] of upstreams) {
      const newest = await latestEpoch(platform.pool, product.id)
      estimates.set(`${PRODUCTS}:${name}`, newest?.counts['rows'] ?? null)
    }
  }
  return { tables, estimates, warnings: manifests.inputs.length > 0 ? warnings : [] }
}

/** The tenant's plain tables, as a source that has them all in its default schema. */
async function sandboxSources(platform: DeployDeps, call: TenantCall): Promise<readonly SourceTable[]> {
  const sources: SourceTable[] = []
  for (const ref of await platform.lake.tables(call.tenant, SANDBOX)) {
    const state = await platform.lake.load(ref, { signal: call.signal })
    if (state === null) continue
    const { columns, primaryKey } = toTableSchema(state.schema)
    sources.push({ schema: DEFAULT_SCHEMA, name: ref.table, columns, primaryKey, suggestedCursor: null })
  }
  return sources
}

/** Tenant SQL runs with its author's rights: who deploys over a raw table must be allowed to read it. */
export async function checkRawGrants(
  platform: DeployDeps,
  call: TenantCall,
  manifests: ManifestSet,
  connections: ReadonlyMap<string, Connection>,
): Promise<void> {
  for (const input of manifests.inputs) {
    const connection = connections.get(input.connection)
    if (!connection || (await mayReadRaw(platform, call, connection, qualified(input.table)))) continue
    throw new SluiceError('PERMISSION', `you may not read the raw table of the input "${input.name}"`, {
      code: 'raw_table_forbidden',
      remedy: `Ask the creator of the connection "${input.connection}" to deploy, or for a grant on the table.`,
    })
  }
}

export interface BoundTransform {
  /** What each output column is made of, and what its rows depend on. */
  readonly origins: readonly ColumnOrigin[]
  /** The columns that the transform gives by itself; null without one, in another engine's dialect, or of a source that was not asked. */
  readonly given: readonly string[] | null
}

/**
 * Binds the transform and the conditions to empty inputs: what cannot run is found before anything is deployed. Of
 * origins, what `comparable` concedes is left out. Of a source that could not be asked, the lake's copy says which columns it has; null where there is none, or where it is too old for
 * this transform.
 */
export async function checkTransform(
  platform: DeployDeps,
  call: TenantCall,
  manifests: ManifestSet,
  sources: ReadonlyMap<string, readonly SourceTable[] | null>,
  comparable: Comparable = () => null,
): Promise<BoundTransform | null> {
  const bound = await bindKnown(platform, call, manifests, sources, comparable)
  return bound && { ...bound, origins: withReading(bound.origins, manifests, sources) }
}

async function bindKnown(
  platform: DeployDeps,
  call: TenantCall,
  manifests: ManifestSet,
  sources: ReadonlyMap<string, readonly SourceTable[] | null>,
  comparable: Comparable,
): Promise<BoundTransform | null> {
  const asked = manifests.inputs.map((input) => emptyInput(input, sources.get(input.connection) ?? null))
  if (!asked.includes(null)) {
    const tables = asked as readonly EngineTable[]
    try {
      return await bindTransform(platform, call, manifests, tables, comparable)
    } catch (error) {
      throw await withColumnsAtFault(platform, call, manifests, tables, error)
    }
  }
  const known: EngineTable[] = []
  for (const [index, input] of manifests.inputs.entries()) {
    const table = asked[index] ?? emptyInput(input, await lakeCopy(platform, call, input))
    if (table === null) return null
    known.push(table)
  }
  try {
    return { ...(await bindTransform(platform, call, manifests, known, comparable)), given: null }
  } catch (error) {
    if (isSluiceError(error) && error.kind === 'INVALID_DATA') return null
    throw error
  }
}

async function bindTransform(
  platform: DeployDeps,
  call: TenantCall,
  manifests: ManifestSet,
  known: readonly EngineTable[],
  comparable: Comparable,
): Promise<BoundTransform> {
  const compared = comparableColumns(manifests, known, comparable)
  if (manifests.compute.engine === 'distributed') {
    return { origins: await checkDistributed(platform, call, manifests, known, compared), given: null }
  }
  const chosen = new Set<string>()
  for (const [index, input] of manifests.inputs.entries()) {
    const run = await inspectCondition(platform, call, manifests, index, known, compared)
    for (const { column } of run?.lineage[0]?.influence ?? []) chosen.add(rawColumn(input, column))
  }
  const from = manifests.compute.transform ?? `SELECT * FROM ${quoteName(manifests.inputs[0]?.name ?? '')}`
  const run = await inspectTransform(platform, call, manifests, from, known, compared)
  const origins = originsOf(run, manifests, [...chosen]).map((origin, index) => ({
    ...origin,
    type: run.columns[index]?.type ?? 'null',
  }))
  const given = manifests.compute.transform === null ? null : (run.textColumns?.map(({ name }) => name) ?? null)
  return { origins, given }
}

function comparableColumns(
  { inputs }: ManifestSet,
  known: readonly EngineTable[],
  comparable: Comparable,
): readonly ComparableColumn[] {
  return inputs.flatMap((input, index) =>
    (known[index]?.columns ?? []).flatMap(({ name, type }) => {
      const as = comparable(rawColumn(input, name), type)
      return as === null ? [] : [{ table: [input.name], column: name, as }]
    }),
  )
}

/** Null without a condition. */
async function inspectCondition(
  platform: DeployDeps,
  call: TenantCall,
  { inputs }: ManifestSet,
  index: number,
  known: readonly EngineTable[],
  comparable: readonly ComparableColumn[],
): Promise<EngineRun | null> {
  const where = inputs[index]?.where ?? null
  if (where === null) return null
  const output = { kind: 'inspect-condition', sql: where, comparable } as const
  return inspect(platform, call, output, [known[index] as EngineTable], 'inputs', `inputs[${index}].where`)
}

function inspectTransform(
  platform: DeployDeps,
  call: TenantCall,
  manifests: ManifestSet,
  from: string,
  tables: readonly EngineTable[],
  comparable: readonly ComparableColumn[],
): Promise<EngineRun> {
  const names = outputSchema(manifests.output).columns.map((column) => quoteName(column.name))
  const within = { before: `SELECT ${names.join(', ')} FROM (\n`, after: '\n) AS output', as: 'query' } as const
  const output = { kind: 'inspect', sql: from, within, comparable } as const
  return inspect(platform, call, output, tables, 'compute', 'transform')
}

function originsOf(run: EngineRun, manifests: ManifestSet, chosen: readonly string[]): readonly ColumnOrigin[] {
  const raw = ({ table, column }: SourceColumn): readonly string[] => {
    const input = manifests.inputs.find((candidate) => candidate.name === table.at(-1))
    return input ? [rawColumn(input, column)] : []
  }
  return run.columns.map((column, index) => {
    const { direct = [], influence = [], grouped = [], copied = null } = run.lineage[index] ?? {}
    return {
      column: column.name,
      sources: direct.flatMap(raw),
      influences: [...new Set([...influence.flatMap(raw), ...chosen])],
      grouped: grouped.flatMap(raw),
      copied: copied === null ? null : (raw(copied)[0] ?? null),
    }
  })
}

/**
 * An engine outside says whether the transform can run, and not what its columns are made of. Ours does, where the text
 * means the same to both; of any other, every column may be made of everything.
 */
async function checkDistributed(
  platform: DeployDeps,
  call: TenantCall,
  manifests: ManifestSet,
  tables: readonly EngineTable[],
  comparable: readonly ComparableColumn[],
): Promise<readonly ColumnOrigin[]> {
  const { transform } = manifests.compute
  const inputs = manifests.inputs.map(({ name, where }, index) => {
    return { alias: name, where, columns: tables[index]?.columns ?? [] }
  })
  const columns = outputSchema(manifests.output).columns
  const types = await platform.distributed
    ?.check({ inputs, transform, columns }, call.signal)
    .catch((error: unknown) => {
      throw transformInvalid(error, 'compute', 'transform')
    })
  const typed = (origin: ColumnOrigin): ColumnOrigin => {
    const type = types?.[columns.findIndex(({ name }) => name === origin.column)]
    return type === undefined ? origin : { ...origin, type }
  }
  const written = transform ?? `SELECT * FROM ${quoteName(manifests.inputs[0]?.name ?? '')}`
  const names = {
    tables: inputs.map(({ alias }) => alias),
    columns: [...columns, ...inputs.flatMap((input) => input.columns)].map(({ name }) => name),
  }
  const { sql: from, isCommon } = platform.distributed?.read(written, names) ?? { sql: written, isCommon: false }
  const chosen = manifests.inputs.flatMap((input, index) =>
    input.where === null ? [] : (tables[index]?.columns ?? []).map(({ name }) => rawColumn(input, name)),
  )
  const read = await inspectTransform(platform, call, manifests, from, tables, comparable).then(
    (run) => originsOf(run, manifests, chosen),
    (error: unknown) => {
      if (!isSluiceError(error) || error.kind !== 'INVALID_DATA') throw error
      return []
    },
  )
  if (read.length > 0 && isCommon) return read.map(typed)
  const sources = manifests.inputs.flatMap((input, index) =>
    (tables[index]?.columns ?? []).map((column) => rawColumn(input, column.name)),
  )
  return columns.map(({ name }) => {
    const likely = read.find(({ column }) => column === name)?.sources ?? []
    return typed({ column: name, sources, influences: sources, guessed: true, likely })
  })
}

async function inspect(
  platform: DeployDeps,
  call: TenantCall,
  output: InspectOutput,
  tables: readonly EngineTable[],
  manifest: string,
  path: string,
): Promise<EngineRun> {
  try {
    return await bind(platform, call, output, tables)
  } catch (error) {
    throw transformInvalid(error, manifest, path)
  }
}

function transformInvalid(error: unknown, manifest: string, path: string): unknown {
  if (!isSluiceError(error) || error.kind !== 'INVALID_DATA') return error
  return new SluiceError('INVALID_DATA', `${path} in ${manifest}.yaml cannot run: ${error.message}`, {
    code: 'transform_invalid',
    remedy: error.remedy ?? 'Correct the SQL, or the columns in output.yaml.',
    details: { errors: [{ manifest, path, message: error.message }], ...error.details },
    cause: error,
  })
}

/**
 * Whether the transform can be bound where the product that it reads has these columns. Where another of its tables is not
 * known, nothing speaks against it.
 */
export async function canBeMade(
  platform: DeployDeps,
  call: TenantCall,
  manifests: ManifestSet,
  table: SourceTable,
): Promise<boolean> {
  const tables: EngineTable[] = []
  for (const input of manifests.inputs) {
    const isChanged = input.connection === PRODUCTS && isNamed(table, input.table)
    const known = emptyInput(input, isChanged ? [table] : await lakeCopy(platform, call, input))
    if (known === null) return !isChanged
    const missing = input.columns?.some((name) => !known.columns.some((column) => column.name === name))
    if (isChanged && missing) return false
    tables.push(known)
  }
  try {
    await bindTransform(platform, call, manifests, tables, () => null)
    return true
  } catch (error) {
    if (isSluiceError(error) && error.kind === 'INVALID_DATA') return false
    throw error
  }
}

/** The input's table as it was when it was last loaded; none where it never was. */
export async function lakeCopy(platform: DeployDeps, call: TenantCall, input: Input): Promise<readonly SourceTable[]> {
  const ref = rawTable(call.tenant, input.connection, input.table)
  const state = await platform.lake.load(ref, { signal: call.signal })
  if (state === null) return []
  const [schema = '', ...rest] = qualified(input.table).split('.')
  return [{ schema, name: rest.join('.'), ...toTableSchema(state.schema), suggestedCursor: null }]
}

/** All that texts may name: checks are of columns, too, that the lake has and the source has lost. */
export async function inputColumns(
  platform: DeployDeps,
  call: TenantCall,
  { inputs }: ManifestSet,
  sources: ReadonlyMap<string, readonly SourceTable[] | null>,
): Promise<JudgedColumns> {
  const tables = inputs.filter(({ connection }) => connection !== PRODUCTS)
  const columns = tables.map(async (input) => {
    const places = [sources.get(input.connection) ?? null, await lakeCopy(platform, call, input)]
    const found = places.flatMap((place) => sourceOf(input, place) ?? [])
    return [input.name, [...new Set(found.flatMap((table) => table.columns.map(({ name }) => name)))]] as const
  })
  return Object.fromEntries((await Promise.all(columns)).filter(([, names]) => names.length > 0))
}

/** What contracts hold inputs to from now on: the tables as their sources have them, else as they were loaded last. */
export async function heldShapes(
  platform: DeployDeps,
  call: TenantCall,
  { inputs }: ManifestSet,
  sources: ReadonlyMap<string, readonly SourceTable[] | null>,
): Promise<HeldShapes> {
  const held = inputs.filter((input) => input.connection !== PRODUCTS && !takesAnyShape(input))
  const shapes = held.map(async (input) => {
    const table =
      sourceOf(input, sources.get(input.connection) ?? null) ?? sourceOf(input, await lakeCopy(platform, call, input))
    const columns = table?.columns.map(({ name, type, nullable }) => ({ name, type, nullable }))
    return columns === undefined ? [] : [[input.name, columns] as const]
  })
  return Object.fromEntries((await Promise.all(shapes)).flat())
}

/**
 * How an input is read decides about rows, too: by a cursor, which of them are read anew; by a key that the source does not
 * enforce, which of several stays, and that is the newest by the cursor.
 */
function withReading(
  origins: readonly ColumnOrigin[],
  { inputs }: ManifestSet,
  sources: ReadonlyMap<string, readonly SourceTable[] | null>,
): readonly ColumnOrigin[] {
  const read = inputs.map((input) => readingOf(input, sourceOf(input, sources.get(input.connection) ?? null)))
  const [cursors, keys] = [read.flatMap(({ cursors: own }) => own), read.flatMap(({ keys: own }) => own)]
  if (cursors.length + keys.length === 0) return origins
  return origins.map((origin) => ({
    ...origin,
    influences: [...new Set([...(origin.influences ?? []), ...cursors])],
    grouped: [...new Set([...(origin.grouped ?? []), ...keys])],
  }))
}

function readingOf(input: Input, source: SourceTable | null) {
  if (input.mode === 'full') return { cursors: [], keys: [] }
  const { primaryKey, cursorColumn } = input
  const enforced = source?.primaryKey ?? []
  const isUnique = enforced.length > 0 && enforced.every((name) => primaryKey.includes(name))
  const keys = isUnique ? [] : primaryKey
  const cursor = cursorColumn ?? (keys.length > 0 ? (source?.suggestedCursor ?? null) : null)
  const named = (names: readonly string[]) => names.map((name) => rawColumn(input, name))
  return { cursors: named(cursor === null ? [] : [cursor]), keys: named(keys) }
}

function sourceOf(input: Input, tables: readonly SourceTable[] | null): SourceTable | null {
  return tables?.find((table) => isNamed(table, qualified(input.table))) ?? null
}

/** Null where the table is not among those of the source. */
export function emptyInput(input: Input, tables: readonly SourceTable[] | null): EngineTable | null {
  const found = sourceOf(input, tables)
  if (!found) return null
  const columns = found.columns.filter((column) => input.columns === null || input.columns.includes(column.name))
  return {
    name: [input.name],
    files: [],
    columns: columns.map((column, index) => ({ name: column.name, type: column.type, fieldId: index + 1 })),
  }
}
