/** The classes of output columns: inherited from what they are made of, and lowered by few. */
import { type LogicalType, SluiceError } from '@sluice/sdk'
import type { TenantCall } from '../../flow.ts'
import { fullNameOf } from '../../ingestion/product-outcome.ts'
import { qualified } from '../../manifest/context.ts'
import type { Input, ManifestSet } from '../../manifest/manifest-set.ts'
import { CLASSIFICATIONS } from '../../policy/classification.ts'
import { type ClassifiedColumn, isSensitive, strategyFor } from '../../policy/masking.ts'
import { rawColumn } from '../../quality/check-readings.ts'
import type { Actor } from '../../registry/actor.ts'
import type { Product } from '../../registry/products.ts'
import { productColumn, rawClasses } from '../../registry/raw-classes.ts'
import { deployedVersions } from '../../registry/versions.ts'
import { ownersBelow } from '../rights/sources-below.ts'
import type { DeployDeps } from './deps.ts'

export interface ColumnOrigin {
  readonly column: string
  /** Raw columns, as `rawColumn` names them. */
  readonly sources: readonly string[]
  /** Raw columns that decide which rows there are, how often and in which order. */
  readonly influences?: readonly string[]
  /** Raw columns by which rows are grouped, and which are compared to others of their class by nothing else. */
  readonly grouped?: readonly string[]
  /** The raw column whose values the column has, unchanged. */
  readonly copied?: string | null
  /** Of what the transform gives, as `castLoss` names it. */
  readonly type?: string
  /** Nothing says what the column is made of, so that it may be any of the sources. */
  readonly guessed?: boolean
  /** Of a guess: those that it is made of by all appearances. They are given its class, and say nothing of the others. */
  readonly likely?: readonly string[]
}

/** By raw column, the classes that hide it. */
export type HiddenColumns = ReadonlyMap<string, readonly string[]>

/**
 * What hides raw columns: the classes that products of the tenant give to them and, where none does, those that this
 * version gives, as far as it is known to which.
 */
export async function hiddenColumns(
  platform: DeployDeps,
  product: Pick<Product, 'tenant'>,
  manifests: ManifestSet,
  origins: readonly ColumnOrigin[] | null,
): Promise<HiddenColumns> {
  const said = await rawClasses(platform.pool, product.tenant)
  const hiding = (classes: ReadonlyMap<string, readonly string[]>) =>
    [...classes].flatMap(([column, names]) => {
      const sensitive = names.filter((name) => isSensitive(name, platform.rules))
      return sensitive.length === 0 ? [] : [[column, sensitive] as const]
    })
  const isKnown = origins !== null && !origins.some(({ guessed }) => guessed)
  return new Map([...(isKnown ? hiding(classesOf(manifests, origins)) : []), ...hiding(said)])
}

/** To which class a raw column of that type may be compared by anybody; null where its mask shows no equality. */
export type Comparable = (rawColumn: string, type: LogicalType) => string | null

export function comparableBy({ rules }: Pick<DeployDeps, 'rules'>, hidden: HiddenColumns): Comparable {
  return (column, type) => {
    const [classification, ...others] = hidden.get(column) ?? []
    if (classification === undefined || others.length > 0) return null
    return strategyFor({ name: column, type, nullable: true, classification }, rules) === 'hash' ? classification : null
  }
}

/**
 * The output columns that show what is hidden: none of the same class, they are made of such columns, or their rows
 * depend on them. What decides about rows is also seen where every column has its class: on the number of rows. Where
 * it is not known what the columns are made of, each is made of all that the inputs have.
 */
export function laundered(
  { rules }: Pick<DeployDeps, 'rules'>,
  manifests: ManifestSet,
  origins: readonly ColumnOrigin[] | null,
  hidden: HiddenColumns,
): readonly string[] {
  const known = origins ?? originsOfAny(manifests, [...hidden.keys()])
  const outputs = new Map(manifests.output.columns.map((column) => [column.name, column]))
  const carries = ({ column, copied }: ColumnOrigin, source: string) => {
    const output = outputs.get(column)
    if (copied !== source || output === undefined) return false
    const isSame = hidden.get(source)?.includes(output.classification) ?? false
    return isSame && strategyFor(output, rules) === 'hash'
  }
  const decides = (source: string) => hidden.has(source)
  const rowsOf = ({ influences = [], grouped = [] }: ColumnOrigin) => [
    ...influences.filter(decides),
    ...grouped.filter(decides).filter((source) => !known.some((origin) => carries(origin, source))),
  ]
  const shows = (origin: ColumnOrigin) => {
    const declared = outputs.get(origin.column)?.classification ?? 'public'
    return [...origin.sources, ...rowsOf(origin)].some((source) => !(hidden.get(source)?.includes(declared) ?? true))
  }
  const found = known.filter(shows)
  const isCounted = known.some((origin) => rowsOf(origin).length > 0)
  return (found.length === 0 && isCounted ? known : found).map(({ column }) => column)
}

/**
 * Columns that lose a masked class: to none, or to another one, for which other readers are cleared. `former` holds those
 * of the live version and, with the class that they had last, those that were dropped before it: rows of a kept state
 * and of a history still have them.
 */
export function loweredClasses(
  platform: DeployDeps,
  former: readonly ClassifiedColumn[],
  next: ManifestSet,
): readonly string[] {
  return former
    .filter((column) => isSensitive(column.classification, platform.rules))
    .filter((column) => {
      const now = next.output.columns.find((candidate) => candidate.name === column.name)
      return now !== undefined && now.classification !== column.classification
    })
    .map((column) => column.name)
}

/** Whether readers of the product become more: the rows that it keeps are theirs, too, then. */
export function opensProduct(live: ManifestSet | null, next: ManifestSet): boolean {
  if (live === null) return false
  const level = ({ product }: ManifestSet) => CLASSIFICATIONS.indexOf(product.classification)
  return level(next) < level(live)
}

export interface Lowering {
  readonly columns: readonly string[]
  /** Whether the product is opened to more readers. */
  readonly opens: boolean
}

/**
 * Creators of all connections that rows came from which the lowering shows: those of the new version and the live one,
 * and of each that hid more, whose rows the product may still keep. Null for a connection that is gone: of its name there
 * may be another one now. None where nothing is lowered.
 */
export async function sourceOwners(
  platform: DeployDeps,
  { id, tenant }: Pick<Product, 'id' | 'tenant'>,
  next: ManifestSet,
  { columns, opens }: Lowering,
  live: ManifestSet | null,
): Promise<readonly (Actor | null)[]> {
  if (columns.length === 0 && !opens) return []
  const deployed = await deployedVersions<ManifestSet>(platform.pool, id)
  const hidMore = deployed.filter(
    ({ normalised }) =>
      (opens && opensProduct(normalised, next)) ||
      normalised.output.columns.some(
        ({ name, classification }) => columns.includes(name) && isSensitive(classification, platform.rules),
      ),
  )
  const now = { normalised: next, deployedAt: new Date() }
  const versions = [now, ...(live === null ? [] : [{ ...now, normalised: live }]), ...hidMore]
  return ownersBelow(platform.pool, tenant, versions)
}

/**
 * A class, and the classification of the product, may be lowered by the owner of all sources of the rows, or an
 * administrator. Gives the columns, each once. Throws PERMISSION `class_lowering_refused`.
 */
export function checkClasses(
  call: Pick<TenantCall, 'principal'>,
  product: Pick<Product, 'createdBy'>,
  { columns, opens }: Lowering,
  owners: readonly (Actor | null)[],
): readonly string[] {
  const lowered = [...new Set(columns)]
  if (lowered.length === 0 && !opens) return lowered
  const { principal } = call
  const isOwn = (actor: Actor | null) => actor?.issuer === principal.issuer && actor.subject === principal.subject
  // Plain tables have no owner: a product that is made of nothing else is its creator's.
  if (principal.isAdmin || (owners.length > 0 ? owners : [product.createdBy]).every(isOwn)) return lowered
  throw new SluiceError(
    'PERMISSION',
    lowered.length === 0
      ? 'only the owner of the source or an administrator may lower the classification of a product'
      : 'only the owner of the source or an administrator may lower the class of a column',
    {
      code: 'class_lowering_refused',
      remedy: 'Keep the class, or ask the creator of the connection.',
      details: { columns: lowered },
    },
  )
}

/** Every output column may be made of each of these raw columns that an input reads. */
function originsOfAny({ inputs, output }: ManifestSet, rawColumns: readonly string[]): readonly ColumnOrigin[] {
  const sources = rawColumns.filter((raw) => {
    const [connection, table, column] = JSON.parse(raw) as readonly [string, string, string]
    const reads = ({ columns, where }: Input) =>
      where !== null || (columns?.some((name) => name.toLowerCase() === column) ?? true)
    return inputs.some((input) => input.connection === connection && qualified(input.table) === table && reads(input))
  })
  return output.columns.map(({ name }) => ({ column: name, sources, influences: sources, guessed: true }))
}

/**
 * By raw column, all classes that this version gives to what is made of it: one that hides nothing says nothing against
 * one that does. Where that is guessed, or not known at all, to the columns of the same name and to those
 * that are likely.
 */
export function classesOf(
  manifests: ManifestSet,
  origins: readonly ColumnOrigin[] | null,
): ReadonlyMap<string, readonly string[]> {
  const classes = new Map<string, Set<string>>()
  for (const { column, sources, guessed = false, likely = [] } of origins ?? originsByName(manifests)) {
    const declared = manifests.output.columns.find((candidate) => candidate.name === column)
    if (!declared || declared.classification === 'public') continue
    for (const source of sources) {
      if (guessed && sourceName(source) !== column.toLowerCase() && !likely.includes(source)) continue
      classes.set(source, (classes.get(source) ?? new Set()).add(declared.classification))
    }
  }
  return new Map([...classes].map(([source, names]) => [source, [...names]]))
}

/** What others may be made of: the product's own columns, as inputs of theirs are named. */
export function ownClasses({ product, output }: ManifestSet): ReadonlyMap<string, readonly string[]> {
  const name = fullNameOf(product)
  const classed = output.columns.filter(({ classification }) => classification !== 'public')
  return new Map(classed.map((column) => [productColumn(name, column.name), [column.classification]]))
}

/** The raw columns whose values those columns have, unchanged. */
export function copiedBy(origins: readonly ColumnOrigin[] | null, columns: readonly string[]): readonly string[] {
  return (origins ?? []).flatMap(({ column, copied }) => (copied && columns.includes(column) ? [copied] : []))
}

function originsByName({ inputs, output }: ManifestSet): readonly ColumnOrigin[] {
  return output.columns.map(({ name }) => ({
    column: name,
    sources: inputs.map((input) => rawColumn(input, name)),
    guessed: true,
  }))
}

function sourceName(source: string): string {
  return String((JSON.parse(source) as readonly unknown[]).at(-1))
}
