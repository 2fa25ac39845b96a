/** How the inputs of a product are read, and what becomes of rows that are gone: as plan and product say it. */
import { isSluiceError } from '@sluice/sdk'
import { readMode } from '../../ingestion/source-tables.ts'
import { SANDBOX } from '../../lake/tenant-layout.ts'
import { isNamed, qualified, type SourceTable } from '../../manifest/context.ts'
import { type Input, keepsMissing, type ManifestSet, type OutputManifest } from '../../manifest/manifest-set.ts'
import { contractOf, type SchemaContract } from '../../manifest/schema-contract.ts'
import type { Connection } from '../../registry/connections.ts'
import { PRODUCTS } from '../../registry/product-sources.ts'
import { type Product, productsInServiceReading } from '../../registry/products.ts'
import { lastReads, type TableProgress } from '../../registry/run-progress.ts'
import type { Queryable } from '../../registry/sql.ts'

export interface InputRead extends Pick<TableProgress, 'modeReason' | 'deletes' | 'deletesReason'> {
  /** The alias. */
  readonly input: string
  readonly connection: string
  readonly table: string
  /** Null: it is not read by a run, or nobody knows yet. */
  readonly mode: TableProgress['mode'] | null
  /** Why a version that names no mode does not take the log of its source, and what would let it. Of a plan alone; null: nothing to say. */
  readonly notByLog?: string | null
  /** Null: of a product. */
  readonly contract: SchemaContract | null
  /** Of the last read; null where there was none, and in a plan. */
  readonly readAt: Date | null
}

export interface Reader {
  readonly product: Product
  readonly manifests: ManifestSet
}

/** The products in service that read from the connection. */
export async function readersOf(db: Queryable, connection: Connection): Promise<readonly Reader[]> {
  // Previews are made once, and ask nothing of syncs.
  const readers = await productsInServiceReading<ManifestSet>(db, connection.tenant, connection.name)
  return readers.map(({ product, normalised }) => ({ product, manifests: normalised }))
}

const UNKNOWN = { mode: null, modeReason: null, deletes: null, deletesReason: null, readAt: null } as const

const contractIn = (input: Input) => (input.connection === PRODUCTS ? null : contractOf(input))

/** As the next sync will read them, with what other products ask of the same tables. */
export async function plannedReads(
  db: Queryable,
  product: Product,
  { inputs }: ManifestSet,
  connections: ReadonlyMap<string, Connection>,
  sources: ReadonlyMap<string, readonly SourceTable[] | null>,
): Promise<readonly InputRead[]> {
  const others = new Map<string, readonly Input[]>()
  for (const [name, connection] of connections) {
    const readers = (await readersOf(db, connection)).filter((reader) => reader.product.id !== product.id)
    others.set(
      name,
      readers.flatMap((reader) => reader.manifests.inputs),
    )
  }
  return inputs.map((input): InputRead => {
    const table = qualified(input.table)
    const at = { input: input.name, connection: input.connection, table, contract: contractIn(input) }
    const found = sources.get(input.connection)?.find((source) => isNamed(source, table))
    if (input.connection === PRODUCTS) return { ...at, ...UNKNOWN, modeReason: EPOCHS[input.epoch ?? 'same_wave'] }
    if (!found || input.connection === SANDBOX) return { ...at, ...UNKNOWN }
    const same = (others.get(input.connection) ?? []).filter(
      (other) => other.connection === input.connection && qualified(other.table) === table,
    )
    return { ...at, ...UNKNOWN, ...chosenMode(table, [...inputs.filter(isSame(input)), ...same], found) }
  })
}

const EPOCHS = {
  same_wave: 'the newest rows of the product, when all inputs rest on the same rows of what they are made of',
  latest: 'the newest rows of the product',
} as const

const isSame = (one: Input) => (other: Input) =>
  one.connection === other.connection && qualified(one.table) === qualified(other.table)

function chosenMode(name: string, inputs: readonly Input[], found: SourceTable): Partial<InputRead> {
  try {
    const { mode, reason, deletes, deletesReason } = readMode({ name, inputs }, found)
    return { mode, modeReason: reason, deletes, deletesReason }
  } catch (error) {
    if (isSluiceError(error) && error.kind === 'INVALID_DATA') return { modeReason: error.message }
    throw error
  }
}

/** As they were read last. */
export async function actualReads(
  db: Queryable,
  { inputs }: ManifestSet,
  connections: ReadonlyMap<string, Connection>,
): Promise<readonly InputRead[]> {
  const reads = new Map<string, Pick<InputRead, keyof typeof UNKNOWN>>()
  for (const [name, { id }] of connections) {
    const tables = inputs.filter((input) => input.connection === name).map((input) => qualified(input.table))
    for (const read of await lastReads(db, id, tables)) {
      const { mode, modeReason, deletes, deletesReason, readAt } = read
      reads.set(`${name}:${read.name}`, { mode, modeReason, deletes, deletesReason, readAt })
    }
  }
  return inputs.map((input) => {
    const table = qualified(input.table)
    const at = { input: input.name, connection: input.connection, table, contract: contractIn(input) }
    if (input.connection === PRODUCTS) return { ...at, ...UNKNOWN, modeReason: EPOCHS[input.epoch ?? 'same_wave'] }
    return { ...UNKNOWN, ...reads.get(`${input.connection}:${table}`), ...at }
  })
}

/** Connections of which a product reads several tables. */
function joined({ inputs }: ManifestSet): readonly string[] {
  const tables = Map.groupBy(inputs, ({ connection }) => connection)
  return [...tables].flatMap(([connection, own]) =>
    connection !== SANDBOX && connection !== PRODUCTS && new Set(own.map(({ table }) => qualified(table))).size > 1
      ? [connection]
      : [],
  )
}

/** Whether tables of one connection were read as of one instant of it; null: the product reads one of each. */
export function isOfOneMoment(manifests: ManifestSet, materialized: Readonly<Record<string, unknown>>): boolean | null {
  const connections = joined(manifests)
  if (connections.length === 0) return null
  return connections.every((connection) => {
    const own = manifests.inputs.filter((input) => input.connection === connection)
    const moments = own.map(({ name }) => (materialized[name] as { readonly moment?: string | null })?.moment ?? null)
    return moments[0] !== null && new Set(moments).size === 1
  })
}

/** What a plan has to say of tables that cannot be read as of one instant. */
export function momentNotes(
  manifests: ManifestSet,
  connections: ReadonlyMap<string, Connection>,
  isOffered: (connection: Connection) => boolean,
): readonly string[] {
  return joined(manifests).flatMap((name) => {
    const connection = connections.get(name)
    if (connection === undefined || isOffered(connection)) return []
    return [`the tables of "${name}" are read one after the other, each as of its own moment`]
  })
}

/** What becomes of rows that the output no longer has. */
export function missingText(output: OutputManifest): string {
  if (output.writeMode === 'append') return 'rows are only ever added: those that are gone at the source stay'
  if (keepsMissing(output)) return 'rows whose keys the output no longer has stay, by keep_missing'
  return 'rows that the output no longer has leave the lake and every store'
}

/** What a plan has to say of rows that are gone, in sentences. */
export function deleteNotes(
  live: ManifestSet | null,
  next: ManifestSet,
  reads: readonly InputRead[],
  leaving: number | null | undefined,
): readonly string[] {
  const notes = keepsMissing(next.output) ? [missingText(next.output)] : []
  for (const { input, deletes, deletesReason } of reads) {
    if (deletes === 'unseen') notes.push(`rows that are gone from "${input}" are not looked for: ${deletesReason}`)
  }
  if (live === null || !keepsMissing(live.output) || keepsMissing(next.output)) return notes
  const counted =
    leaving == null
      ? 'how many could not be counted'
      : `${leaving} ${leaving === 1 ? 'row' : 'rows'} by what the lake has of its inputs`
  const later = reads.some(({ deletes }) => deletes === 'key_sweep')
    ? '; with the next sync go those that were deleted at the source'
    : ''
  return [...notes, `${missingText(next.output)}: ${counted}${later}`]
}

export function readJson(read: InputRead) {
  const { input, connection, table, mode, modeReason, deletes, deletesReason, readAt, contract, notByLog } = read
  return {
    input,
    ...(connection === PRODUCTS ? { product: table } : { connection, table }),
    mode,
    mode_reason: modeReason,
    ...(notByLog == null ? {} : { not_by_log: notByLog }),
    deletes,
    deletes_reason: deletesReason,
    read_at: readAt?.toISOString() ?? null,
    ...(contract == null ? {} : { schema_contract: contract }),
  }
}
